import { Pencil, Trash2 } from "lucide-react";
import { useState } from "react";
import type { KeyScope } from "../../core/access/caller.ts";
import { denyAddKey, denyKeys, denyRemoveKey } from "../../core/access/membership.ts";
import type { ApiKey, KeyDetails, Organization } from "../answers.ts";
import { call, path } from "../api.ts";
import { Confirm, Dialog } from "../design/dialog.tsx";
import { formatDay } from "../format.ts";
import { Field, Form, Select } from "../design/field.tsx";
import { Samples } from "../parts/samples.tsx";
import { GuardedButton } from "../design/guarded-button.tsx";
import { MenuItem, MoreMenu } from "../design/menu.tsx";
import { Empty, Failed, Note, Page, Section } from "../design/page.tsx";
import { SecretText } from "../parts/secret.tsx";
import { Tag, Table } from "../design/table.tsx";
import { useAsk, useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";

const t = texts.keys;
const SCOPES: readonly KeyScope[] = ["EVALUATION", "MANAGEMENT", "ALL"];

export function KeysPage() {
  const { organization, actor, base } = useHere();
  const [created, setCreated] = useState<string>();
  const [deleted, setDeleted] = useState<ApiKey>();
  const [renamed, setRenamed] = useState<ApiKey>();
  const details = useAsk<KeyDetails[]>(denyKeys(actor) === undefined ? `${base}/api-keys` : undefined);
  const detailsOf = (id: string) => details.data?.find((each) => each.id === id);
  return (
    <Page title={t.title} lead={t.lead}>
      {created === undefined ? null : (
        <Note tone="good" role="status" action={<SecretText text={created} label={t.key} isShown />}>
          <b className="strong">{t.created}.</b> <span className="soft">{t.createdLead}</span>
        </Note>
      )}
      <Section title={t.title}>
        {organization.apiKeys.length === 0 ? (
          <Empty>{t.empty}</Empty>
        ) : (
          <Table label={t.title} head={[t.name, t.scope, t.key, t.lastUsed, t.expires, ""]}>
            {organization.apiKeys.map((key) => (
              <tr key={key.id}>
                <th scope="row">{detailsOf(key.id)?.name ?? t.unnamed}</th>
                <td>
                  <Tag tone={key.scope === "ALL" ? "warn" : "plain"}>{key.scope}</Tag>
                </td>
                <td>
                  <SecretText text={key.key} label={`${t.key} ${key.scope}`} />
                  {key.key.includes("*") ? <span className="hint"> {t.masked}</span> : null}
                </td>
                <td>{dayOr(detailsOf(key.id)?.lastUsedAt)}</td>
                <td>{dayOr(detailsOf(key.id)?.expiresAt)}</td>
                <td className="right num">
                  {denyKeys(actor) === undefined && denyRemoveKey(actor, key.scope) === undefined ? (
                    <MoreMenu label={t.more(detailsOf(key.id)?.name ?? key.scope)} isSmall>
                      <MenuItem icon={Pencil} isDisabled={details.data === undefined} onSelect={() => setRenamed(key)}>
                        {t.rename}
                      </MenuItem>
                      <MenuItem icon={Trash2} isBad onSelect={() => setDeleted(key)}>
                        {t.delete}
                      </MenuItem>
                    </MoreMenu>
                  ) : null}
                </td>
              </tr>
            ))}
          </Table>
        )}
      </Section>
      <Section title={t.createTitle}>
        <CreateKey onCreated={setCreated} />
      </Section>
      <Section title={t.samplesTitle}>
        <Samples />
      </Section>
      {renamed === undefined ? null : (
        <RenameKey apiKey={renamed} name={detailsOf(renamed.id)?.name ?? ""} onClose={() => setRenamed(undefined)} />
      )}
      {deleted === undefined ? null : (
        <DeleteKey
          apiKey={deleted}
          name={detailsOf(deleted.id)?.name ?? deleted.scope}
          onClose={() => setDeleted(undefined)}
        />
      )}
    </Page>
  );
}

/** Returns "" while the date is loading and "never" once it is known to be null. */
function dayOr(moment: string | null | undefined): string {
  if (moment === undefined) return "";
  return moment === null ? t.never : formatDay(moment);
}

function CreateKey({ onCreated }: { onCreated: (key: string) => void }) {
  const { base, actor } = useHere();
  const [scope, setScope] = useState<KeyScope>("EVALUATION");
  const [name, setName] = useState("");
  const [expires, setExpires] = useState("");
  const create = useChange({
    change: () =>
      call<Pick<Organization, "apiKeys">>("POST", `${base}/api-keys`, {
        body: {
          scope,
          ...(name.trim() === "" ? {} : { name }),
          ...(expires === "" ? {} : { expiresAt: `${expires}T00:00:00.000Z` }),
        },
      }),
    touches: () => [base, "/organizations"],
    done: () => t.created,
    after: ({ apiKeys }) => {
      setName("");
      onCreated(apiKeys.at(-1)?.key ?? "");
    },
  });
  const offered = SCOPES.filter((each) => denyAddKey(actor, each) === undefined);
  if (denyKeys(actor) !== undefined) return <p className="hint">{texts.common.askAdmin}</p>;
  return (
    <Form className="fields" onSubmit={() => create.mutate(undefined)}>
      <Select
        label={t.scope}
        value={scope}
        onChange={setScope}
        options={offered.map((each) => [each, t.scopes[each]] as const)}
      />
      <Field label={t.name} hint={t.nameHint} value={name} onChange={setName} />
      <Field label={t.expiresOptional} hint={t.expiresHint} type="date" value={expires} onChange={setExpires} />
      <button type="submit" className="b primary" disabled={create.isPending}>
        {t.create}
      </button>
      <Failed error={create.error} />
    </Form>
  );
}

function RenameKey({ apiKey, name: before, onClose }: { apiKey: ApiKey; name: string; onClose: () => void }) {
  const { base } = useHere();
  const [name, setName] = useState(before);
  const rename = useChange({
    change: (wanted: string | null) =>
      call<KeyDetails>("PUT", base + path`/api-keys/${apiKey.id}`, { body: { name: wanted } }),
    touches: () => [`${base}/api-keys`],
    done: (changed) => t.renamed(changed.name ?? t.unnamed),
    undo: (_, wanted) => (wanted === before ? undefined : before),
    after: onClose,
  });
  return (
    <Dialog title={t.renameTitle} onClose={onClose}>
      <Form onSubmit={() => rename.mutate(name.trim())}>
        <p>
          {apiKey.scope} <code>{apiKey.key.slice(0, 12)}…</code>
        </p>
        <Field label={t.name} hint={t.nameHint} value={name} onChange={setName} required />
        <Failed error={rename.error} />
        <div className="actions end">
          <button type="button" className="b" onClick={onClose}>
            {texts.common.cancel}
          </button>
          <GuardedButton
            className="b primary"
            reason={name.trim() === "" || name.trim() === before ? texts.common.newNameFirst : undefined}
            isBusy={rename.isPending}
          >
            {t.rename}
          </GuardedButton>
        </div>
      </Form>
    </Dialog>
  );
}

function DeleteKey({ apiKey, name, onClose }: { apiKey: ApiKey; name: string; onClose: () => void }) {
  const { base } = useHere();
  const remove = useChange({
    change: () => call("DELETE", base + path`/api-keys/${apiKey.id}`),
    touches: () => [base, "/organizations"],
    done: () => t.deleted,
    after: onClose,
  });
  return (
    <Confirm title={t.deleteTitle} action={t.delete} name={apiKey.key.slice(0, 12)} change={remove} onClose={onClose}>
      <p>{t.deleteLead(name)}</p>
      <p>
        <code>{apiKey.key.slice(0, 12)}…</code>
      </p>
    </Confirm>
  );
}
