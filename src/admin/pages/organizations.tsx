import { Pencil, Trash2 } from "lucide-react";
import { useState } from "react";
import { Link, useSearchParams } from "react-router";
import { denyDelete, denyUpdate } from "../../core/access/membership.ts";
import { roleIn } from "../access.ts";
import type { Organization, OrganizationPage } from "../answers.ts";
import { call, path } from "../api.ts";
import { Confirm, Dialog } from "../design/dialog.tsx";
import { Field, Form } from "../design/field.tsx";
import { MenuItem, MoreMenu } from "../design/menu.tsx";
import { Empty, Failed, Loaded, Page, Section } from "../design/page.tsx";
import { Pager } from "../design/pager.tsx";
import { SearchBox } from "../design/search-box.tsx";
import { Tag, Table } from "../design/table.tsx";
import { useAsk, useChange } from "../queries.ts";
import { useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.organizations;
const PAGE_SIZE = 20;

export function OrganizationsPage() {
  const [search] = useSearchParams();
  const page = Math.max(1, Number(search.get("page")) || 1);
  const q = search.get("q") ?? "";
  const list = useAsk<OrganizationPage>("/organizations", { q, limit: PAGE_SIZE, offset: (page - 1) * PAGE_SIZE });
  const [renamed, setRenamed] = useState<Organization>();
  const [deleted, setDeleted] = useState<Organization>();
  return (
    <Page title={t.title} lead={t.lead}>
      <SearchBox label={t.search} />
      <Loaded query={list}>
        {({ data, pagination }) => {
          // The server searches for platform ADMINs only; other users receive all of their few organizations.
          const shown = data.filter(({ name }) => name.toLowerCase().includes(q.toLowerCase()));
          const pager = <Pager page={page} pages={pagination?.pages ?? 1} />;
          if (shown.length === 0 && page > 1) return pager;
          if (shown.length === 0) return <Empty>{q === "" ? texts.errors.noOrganization : t.empty}</Empty>;
          return (
            <>
              <Table label={t.title} head={[t.name, t.owner, t.members, t.yours, ""]}>
                {shown.map((organization) => (
                  <Row
                    key={organization.id}
                    organization={organization}
                    onRename={() => setRenamed(organization)}
                    onDelete={() => setDeleted(organization)}
                  />
                ))}
              </Table>
              {pager}
            </>
          );
        }}
      </Loaded>
      <Create />
      {renamed === undefined ? null : <Rename organization={renamed} onClose={() => setRenamed(undefined)} />}
      {deleted === undefined ? null : <Delete organization={deleted} onClose={() => setDeleted(undefined)} />}
    </Page>
  );
}

function Row(props: { organization: Organization; onRename: () => void; onDelete: () => void }) {
  const { organization } = props;
  const user = useUser();
  const role = roleIn(organization, user.username);
  const actor = user.role === "ADMIN" ? "PLATFORM_ADMIN" : role;
  const mayRename = denyUpdate(actor, { owner: false, default: false }) === undefined;
  const mayDelete = denyDelete(actor, organization.id) === undefined && !organization.default;
  return (
    <tr>
      <th scope="row">
        <Link to={`/o/${organization.id}`}>{organization.name}</Link>{" "}
        {organization.default ? <Tag tone="plain">{t.default}</Tag> : null}
      </th>
      <td>{organization.owner}</td>
      <td className="right num">{organization.members.length + 1}</td>
      <td>{role === undefined ? "–" : texts.members.roles[role]}</td>
      <td className="right">
        {mayRename || mayDelete ? (
          <MoreMenu label={t.more(organization.name)} isSmall>
            {mayRename ? (
              <MenuItem icon={Pencil} onSelect={props.onRename}>
                {t.rename}
              </MenuItem>
            ) : null}
            {mayDelete ? (
              <MenuItem icon={Trash2} isBad onSelect={props.onDelete}>
                {t.delete}
              </MenuItem>
            ) : null}
          </MoreMenu>
        ) : null}
      </td>
    </tr>
  );
}

function Create() {
  const user = useUser();
  const [name, setName] = useState("");
  const create = useChange({
    change: () => call("POST", "/organizations", { body: { name, owner: user.username } }),
    touches: () => ["/organizations"],
    done: () => t.created(name),
    after: () => setName(""),
  });
  return (
    <Section title={t.createTitle}>
      <Form className="fields" onSubmit={() => create.mutate(undefined)}>
        <Field label={t.name} value={name} onChange={setName} required />
        <button type="submit" className="b primary" disabled={create.isPending}>
          {t.create}
        </button>
      </Form>
      <Failed error={create.error} />
    </Section>
  );
}

function Rename({ organization, onClose }: { organization: Organization; onClose: () => void }) {
  const [name, setName] = useState(organization.name);
  const rename = useChange({
    change: () => call("PUT", path`/organizations/${organization.id}`, { body: { name } }),
    touches: () => ["/organizations"],
    done: () => t.renamed,
    after: onClose,
  });
  return (
    <Dialog title={t.renameTitle(organization.name)} onClose={onClose}>
      <Form onSubmit={() => rename.mutate(undefined)}>
        <Field label={t.name} value={name} onChange={setName} required />
        <Failed error={rename.error} />
        <div className="actions end">
          <button type="submit" className="b primary" disabled={rename.isPending}>
            {t.rename}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

function Delete({ organization, onClose }: { organization: Organization; onClose: () => void }) {
  const to = path`/organizations/${organization.id}`;
  const remove = useChange({
    change: () => call("DELETE", to),
    touches: () => ["/organizations"],
    gone: to,
    done: () => {
      if (localStorage.getItem("faregate-organization") === organization.id) {
        localStorage.removeItem("faregate-organization");
      }
      return t.deleted(organization.name);
    },
    after: onClose,
  });
  return (
    <Confirm
      title={t.deleteTitle(organization.name)}
      action={t.delete}
      name={organization.name}
      change={remove}
      onClose={onClose}
    >
      <p>{t.deleteLead}</p>
    </Confirm>
  );
}
