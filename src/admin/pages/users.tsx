import { ChevronDown, KeyRound, Link2, Trash2 } from "lucide-react";
import { useId, useState } from "react";
import { useSearchParams } from "react-router";
import type { PlatformRole } from "../../core/access/caller.ts";
import type { RecoveryLink, User, UserPage } from "../answers.ts";
import { call, path } from "../api.ts";
import { formatLocalDay, formatMoment } from "../format.ts";
import { CopyButton } from "../design/copy.tsx";
import { Confirm, Dialog } from "../design/dialog.tsx";
import { Field, Form, Select } from "../design/field.tsx";
import { MenuItem, MoreMenu } from "../design/menu.tsx";
import { Empty, Failed, Loaded, Note, Page, Section } from "../design/page.tsx";
import { Pager } from "../design/pager.tsx";
import { SearchBox } from "../design/search-box.tsx";
import { Table } from "../design/table.tsx";
import { useAsk, useChange } from "../queries.ts";
import { useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.users;
const PAGE_SIZE = 20;
/** Questions about an account. */
type About = "password" | "recovery" | "delete";
const ROLES: readonly PlatformRole[] = ["USER", "ADMIN"];

export function UsersPage() {
  const isAdmin = useUser().role === "ADMIN";
  const [search] = useSearchParams();
  const page = Math.max(1, Number(search.get("page")) || 1);
  const q = search.get("q") ?? "";
  const list = useAsk<UserPage>("/users", { q, limit: PAGE_SIZE, offset: (page - 1) * PAGE_SIZE });
  const [asked, setAsked] = useState<{ about: About; username: string }>();
  const change = useChange({
    change: ({ username, role }: { username: string; role: PlatformRole }) =>
      call("PUT", path`/users/${username}/role`, { body: { role } }),
    touches: () => ["/users"],
    done: (_, { username, role }) => t.changed(username, role),
  });
  const close = () => setAsked(undefined);
  return (
    <Page title={t.title} lead={t.lead}>
      {isAdmin ? <SearchBox label={t.search} /> : null}
      <Failed error={change.error} />
      <Loaded query={list}>
        {({ data, pagination }) =>
          data.length === 0 && page === 1 ? (
            <Empty>{t.empty}</Empty>
          ) : (
            <>
              <Table label={t.title} head={[t.username, t.role, t.since, ""]}>
                {data.map((user) => (
                  <Row
                    key={user.username}
                    user={user}
                    onRole={(role) => change.mutate({ username: user.username, role })}
                    onAsk={(about) => setAsked({ about, username: user.username })}
                  />
                ))}
              </Table>
              <Pager page={page} pages={pagination?.pages ?? 1} />
            </>
          )
        }
      </Loaded>
      {isAdmin ? <Create /> : null}
      {asked?.about === "password" ? <NewPassword username={asked.username} onClose={close} /> : null}
      {asked?.about === "recovery" ? <Recovery username={asked.username} onClose={close} /> : null}
      {asked?.about === "delete" ? <Delete username={asked.username} onClose={close} /> : null}
    </Page>
  );
}

function Row(props: { user: User; onRole: (role: PlatformRole) => void; onAsk: (about: About) => void }) {
  const { username, createdAt } = props.user;
  const role = "role" in props.user ? props.user.role : undefined;
  const isSelf = useUser().username === username;
  const id = useId();
  return (
    <tr>
      <th scope="row">{username}</th>
      <td>
        <span className="in select">
          <select
            aria-label={t.roleOf(username)}
            value={role}
            disabled={isSelf}
            aria-describedby={isSelf ? id : undefined}
            onChange={({ target }) => props.onRole(target.value === "ADMIN" ? "ADMIN" : "USER")}
          >
            {ROLES.map((each) => (
              <option key={each} value={each}>
                {texts.shell.platformRoles[each]}
              </option>
            ))}
          </select>
          <ChevronDown />
        </span>
        {isSelf ? (
          <span id={id} className="hint block">
            {t.ownRole}
          </span>
        ) : null}
      </td>
      <td>
        <time dateTime={createdAt} title={formatMoment(createdAt)}>
          {formatLocalDay(createdAt)}
        </time>
      </td>
      <td className="right">
        <MoreMenu label={t.more(username)} isSmall>
          <MenuItem icon={KeyRound} onSelect={() => props.onAsk("password")}>
            {t.password}
          </MenuItem>
          <MenuItem icon={Link2} onSelect={() => props.onAsk("recovery")}>
            {t.recovery}
          </MenuItem>
          {isSelf ? null : (
            <MenuItem icon={Trash2} isBad onSelect={() => props.onAsk("delete")}>
              {t.delete}
            </MenuItem>
          )}
        </MoreMenu>
      </td>
    </tr>
  );
}

function Create() {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [role, setRole] = useState<PlatformRole>("USER");
  const create = useChange({
    change: () => call("POST", "/users", { body: { username, password, role } }),
    touches: () => ["/users", "/organizations"],
    done: () => t.created(username),
    after: () => {
      setUsername("");
      setPassword("");
    },
  });
  return (
    <Section title={t.createTitle}>
      <Form className="fields" onSubmit={() => create.mutate(undefined)}>
        <Field label={t.username} value={username} onChange={setUsername} required />
        <Field
          label={texts.signIn.password}
          type="password"
          autoComplete="new-password"
          value={password}
          onChange={setPassword}
          required
        />
        <Select
          label={t.role}
          value={role}
          onChange={setRole}
          options={ROLES.map((each) => [each, texts.shell.platformRoles[each]] as const)}
        />
        <button type="submit" className="b primary" disabled={create.isPending}>
          {t.create}
        </button>
      </Form>
      <Failed error={create.error} />
    </Section>
  );
}

function NewPassword({ username, onClose }: { username: string; onClose: () => void }) {
  const [password, setPassword] = useState("");
  const change = useChange({
    change: () => call("PUT", path`/users/${username}`, { body: { password } }),
    touches: () => ["/users"],
    done: () => t.passwordSet,
    after: onClose,
  });
  return (
    <Dialog title={t.passwordTitle(username)} onClose={onClose}>
      <Form onSubmit={() => change.mutate(undefined)}>
        <Field
          label={texts.account.password}
          hint={texts.register.passwordHint}
          type="password"
          autoComplete="new-password"
          value={password}
          onChange={setPassword}
          required
        />
        <Failed error={change.error} />
        <div className="actions end">
          <button type="submit" className="b primary" disabled={change.isPending}>
            {texts.common.save}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

/** Makes a link for a new password, to be passed on by hand. */
function Recovery({ username, onClose }: { username: string; onClose: () => void }) {
  const [link, setLink] = useState<string>();
  const create = useChange({
    change: () => call<RecoveryLink>("POST", path`/users/${username}/recovery`),
    touches: () => [],
    done: () => t.recoveryCreated,
    after: ({ url }) => setLink(url),
  });
  return (
    <Dialog title={t.recoveryTitle(username)} onClose={onClose}>
      <p>{t.recoveryLead}</p>
      <Failed error={create.error} />
      {link === undefined ? (
        <div className="actions end">
          <button
            type="button"
            className="b primary"
            disabled={create.isPending}
            onClick={() => create.mutate(undefined)}
          >
            {t.recoveryCreate}
          </button>
        </div>
      ) : (
        <Note tone="good" role="status">
          <p className="secret">
            <code>{link}</code> <CopyButton text={link} label={t.recovery} />
          </p>
        </Note>
      )}
    </Dialog>
  );
}

function Delete({ username, onClose }: { username: string; onClose: () => void }) {
  const remove = useChange({
    change: () => call("DELETE", path`/users/${username}`),
    touches: () => ["/users", "/organizations"],
    gone: path`/users/${username}`,
    done: () => t.deleted(username),
    after: onClose,
  });
  return (
    <Confirm title={t.deleteTitle(username)} action={t.delete} name={username} change={remove} onClose={onClose}>
      <p>{t.deleteLead}</p>
    </Confirm>
  );
}
