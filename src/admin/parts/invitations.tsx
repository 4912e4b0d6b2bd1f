import { useState } from "react";
import type { MemberRole } from "../../core/access/caller.ts";
import { denyAddMember } from "../../core/access/membership.ts";
import type { CreatedInvitation, Invitation } from "../answers.ts";
import { call, path } from "../api.ts";
import { CopyButton } from "../design/copy.tsx";
import { Field, Form, Select } from "../design/field.tsx";
import { Empty, Failed, Loaded, Note, Section } from "../design/page.tsx";
import { Table } from "../design/table.tsx";
import { formatMoment } from "../format.ts";
import { useHere } from "../here.tsx";
import { useAsk, useChange } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.invitations;
const ROLES: readonly MemberRole[] = ["EVALUATOR", "MANAGER", "ADMIN"];

/** Invites people to the organization, and lists open invitations. */
export function Invitations() {
  const { base } = useHere();
  const list = useAsk<Invitation[]>(`${base}/invitations`);
  return (
    <Section title={t.title} lead={t.lead}>
      <Loaded query={list} lines={2}>
        {(invitations) => {
          const open = invitations.filter(({ state }) => state === "pending");
          if (open.length === 0) return <Empty>{t.none}</Empty>;
          return (
            <Table label={t.title} head={[t.address, texts.members.role, t.by, t.expires, ""]}>
              {open.map((invitation) => (
                <InvitationRow key={invitation.id} invitation={invitation} />
              ))}
            </Table>
          );
        }}
      </Loaded>
      <Invite />
    </Section>
  );
}

function InvitationRow({ invitation }: { invitation: Invitation }) {
  const { base, actor } = useHere();
  const { id, email, role, invitedBy, expiresAt } = invitation;
  const revoke = useChange({
    change: () => call("DELETE", base + path`/invitations/${id}`),
    touches: () => [`${base}/invitations`],
    done: () => t.revoked,
  });
  return (
    <tr>
      <th scope="row">{email ?? t.noAddress}</th>
      <td>{texts.members.roles[role]}</td>
      <td>{invitedBy}</td>
      <td>
        <time dateTime={expiresAt}>{formatMoment(expiresAt)}</time>
      </td>
      <td className="right">
        {denyAddMember(actor, role) === undefined ? (
          <button
            type="button"
            className="b small"
            aria-label={t.revokeFor(texts.members.roles[role])}
            disabled={revoke.isPending}
            onClick={() => revoke.mutate(undefined)}
          >
            {t.revoke}
          </button>
        ) : null}
        <Failed error={revoke.error} />
      </td>
    </tr>
  );
}

function Invite() {
  const { base, actor } = useHere();
  const [role, setRole] = useState<MemberRole>("EVALUATOR");
  const [email, setEmail] = useState("");
  const [days, setDays] = useState("7");
  const [link, setLink] = useState<string>();
  const invite = useChange({
    change: () =>
      call<CreatedInvitation>("POST", `${base}/invitations`, {
        body: { role, email: email.trim() === "" ? null : email.trim(), days: Number(days) },
        headers: { "accept-language": document.documentElement.lang },
      }),
    touches: () => [`${base}/invitations`],
    done: () => t.created,
    after: ({ url }) => {
      setLink(url);
      setEmail("");
    },
  });
  const roles = ROLES.filter((each) => denyAddMember(actor, each) === undefined);
  return (
    <Form label={t.inviteTitle} onSubmit={() => invite.mutate(undefined)}>
      <div className="fields">
        <Select
          label={t.role}
          value={role}
          onChange={setRole}
          options={roles.map((each) => [each, texts.members.roles[each]] as const)}
        />
        <Field label={t.email} hint={t.emailHint} type="email" value={email} onChange={setEmail} />
        <Field label={t.days} type="number" min={1} max={30} value={days} onChange={setDays} required />
        <button type="submit" className="b" disabled={invite.isPending}>
          {t.invite}
        </button>
      </div>
      <Failed error={invite.error} />
      {link === undefined ? null : (
        <Note tone="good" role="status">
          <p>{t.linkLead}</p>
          <p className="secret">
            <code>{link}</code> <CopyButton text={link} label={t.link} />
          </p>
        </Note>
      )}
    </Form>
  );
}
