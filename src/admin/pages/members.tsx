import { ChevronDown } from "lucide-react";
import { useState } from "react";
import { useNavigate } from "react-router";
import type { MemberRole } from "../../core/access/caller.ts";
import {
  denyAddMember,
  denyChangeMembers,
  denyNewRole,
  denyRemoveMember,
  denyUpdate,
} from "../../core/access/membership.ts";
import type { Organization } from "../answers.ts";
import { call, path } from "../api.ts";
import { Confirm } from "../design/dialog.tsx";
import { Field, Form, Select } from "../design/field.tsx";
import { GuardedButton } from "../design/guarded-button.tsx";
import { Failed, Page, Section } from "../design/page.tsx";
import { Invitations } from "../parts/invitations.tsx";
import { RoleMatrix } from "../parts/role-matrix.tsx";
import { Table } from "../design/table.tsx";
import { useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.members;
const ROLES: readonly MemberRole[] = ["ADMIN", "MANAGER", "EVALUATOR"];
type Member = Organization["members"][number];

export function MembersPage() {
  const { organization, base, actor } = useHere();
  const [removed, setRemoved] = useState<Member>();
  const change = useChange({
    change: ({ username, role }: Member) => call("PUT", base + path`/members/${username}`, { body: { role } }),
    touches: () => [base, "/organizations"],
    done: (_, { username, role }) => t.changed(username, t.roles[role]),
    undo: (_, { username, role }) => {
      const before = organization.members.find((member) => member.username === username);
      return before === undefined || before.role === role ? undefined : before;
    },
  });
  return (
    <Page title={t.title} lead={t.lead}>
      <Section title={t.title}>
        <Table label={t.title} head={[t.who, t.role, ""]}>
          <tr>
            <th scope="row">{organization.owner}</th>
            <td>{t.roles.OWNER}</td>
            <td />
          </tr>
          {organization.members.map((member) => (
            <MemberRow
              key={member.username}
              member={member}
              onRole={(role) => change.mutate({ ...member, role })}
              onRemove={() => setRemoved(member)}
            />
          ))}
        </Table>
        <Failed error={change.error} />
        {denyAddMember(actor, "EVALUATOR") === undefined ? <AddMember /> : null}
      </Section>
      {denyAddMember(actor, "EVALUATOR") === undefined ? <Invitations /> : null}
      {denyUpdate(actor, { owner: true, default: false }) === undefined ? <Transfer /> : null}
      <Section title={t.matrixTitle}>
        <RoleMatrix />
      </Section>
      {removed === undefined ? null : <RemoveMember member={removed} onClose={() => setRemoved(undefined)} />}
    </Page>
  );
}

function MemberRow(props: { member: Member; onRole: (role: MemberRole) => void; onRemove: () => void }) {
  const { username, role } = props.member;
  const { actor } = useHere();
  const isSelf = useUser().username === username;
  const offered = ROLES.filter((each) => each === role || denyNewRole(actor, role, each) === undefined);
  const mayChange = denyChangeMembers(actor) === undefined && denyNewRole(actor, role, "EVALUATOR") === undefined;
  return (
    <tr>
      <th scope="row">{username}</th>
      <td>
        {mayChange ? (
          <span className="in select">
            <select
              aria-label={t.roleOf(username)}
              value={role}
              onChange={({ target }) => {
                const chosen = ROLES.find((each) => each === target.value);
                if (chosen !== undefined) props.onRole(chosen);
              }}
            >
              {offered.map((each) => (
                <option key={each} value={each}>
                  {t.roles[each]}
                </option>
              ))}
            </select>
            <ChevronDown />
          </span>
        ) : (
          t.roles[role]
        )}
      </td>
      <td className="right num">
        {denyRemoveMember(actor, { isSelf, role }) === undefined ? (
          <button type="button" className="b small" onClick={props.onRemove}>
            {isSelf ? t.leave : t.remove}
          </button>
        ) : null}
      </td>
    </tr>
  );
}

function AddMember() {
  const { base, actor } = useHere();
  const [username, setUsername] = useState("");
  const [role, setRole] = useState<MemberRole>("EVALUATOR");
  const add = useChange({
    change: () => call("POST", `${base}/members`, { body: { username, role } }),
    touches: () => [base, "/organizations"],
    done: () => t.added(username),
    after: () => setUsername(""),
  });
  return (
    <Form label={t.addTitle} onSubmit={() => add.mutate(undefined)}>
      <div className="fields">
        <Field label={t.username} hint={t.usernameHint} value={username} onChange={setUsername} required />
        <Select
          label={t.role}
          value={role}
          onChange={setRole}
          options={ROLES.filter((each) => denyAddMember(actor, each) === undefined).map(
            (each) => [each, t.roles[each]] as const,
          )}
        />
        <button type="submit" className="b primary" disabled={add.isPending}>
          {t.add}
        </button>
      </div>
      <Failed error={add.error} />
    </Form>
  );
}

/** Transfers ownership to a member. The user types the organization's name to confirm. */
function Transfer() {
  const { organization, base } = useHere();
  const [owner, setOwner] = useState("");
  const [isAsking, setIsAsking] = useState(false);
  const transfer = useChange({
    change: () => call("PUT", base, { body: { owner } }),
    touches: () => [base, "/organizations"],
    done: () => t.transferred(owner),
    after: () => setIsAsking(false),
  });
  if (organization.default) {
    return (
      <Section title={t.transferTitle}>
        <p className="hint">{t.transferDefault}</p>
      </Section>
    );
  }
  return (
    <Section title={t.transferTitle} lead={t.transferLead}>
      <div className="fields">
        <Select
          label={t.newOwner}
          value={owner}
          onChange={setOwner}
          options={[["", t.choose], ...organization.members.map(({ username }) => [username, username] as const)]}
        />
        <GuardedButton
          className="b danger"
          reason={owner === "" ? t.ownerFirst : undefined}
          onClick={() => setIsAsking(true)}
        >
          {t.transfer}
        </GuardedButton>
      </div>
      {isAsking ? (
        <Confirm
          title={t.transferTitle}
          action={t.transfer}
          name={organization.name}
          change={transfer}
          onClose={() => setIsAsking(false)}
        >
          <p>{t.transferLead}</p>
          <p>
            {t.newOwner}: <strong>{owner}</strong>
          </p>
        </Confirm>
      ) : null}
    </Section>
  );
}

function RemoveMember({ member, onClose }: { member: Member; onClose: () => void }) {
  const { base } = useHere();
  const user = useUser();
  const go = useNavigate();
  const isSelf = user.username === member.username;
  const remove = useChange({
    change: () => call("DELETE", base + path`/members/${member.username}`),
    touches: () => [base, "/organizations"],
    gone: isSelf && user.role !== "ADMIN" ? base : undefined,
    done: () => t.removed(member.username),
    after: () => {
      onClose();
      if (isSelf) void go("/organizations");
    },
  });
  return (
    <Confirm
      title={t.removeTitle(member.username)}
      action={t.remove}
      name={member.username}
      change={remove}
      onClose={onClose}
    >
      <p>{t.removeLead(member.username)}</p>
    </Confirm>
  );
}
