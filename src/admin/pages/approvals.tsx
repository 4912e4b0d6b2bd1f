import { useState } from "react";
import { APPROVAL_ACTIONS, type ApprovalAction, APPROVER_ROLES } from "../../core/approvals.ts";
import type { Approvals, ChangeRequest } from "../answers.ts";
import { call, path } from "../api.ts";
import { Check, Field, Form } from "../design/field.tsx";
import { Empty, Failed, Loaded, Note, Page, Section } from "../design/page.tsx";
import { Table, Tag } from "../design/table.tsx";
import { formatMoment, formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { useAsk, useChange } from "../queries.ts";
import { useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.approvals;

/** Changes that wait for a second person, those that were decided, and the settings. */
export function ApprovalsPage() {
  const { base } = useHere();
  const requests = useAsk<ChangeRequest[]>(`${base}/change-requests`);
  const settings = useAsk<Approvals>(`${base}/approvals`);
  return (
    <Page title={t.title} lead={t.lead}>
      <Loaded query={requests} lines={6}>
        {(all) => (
          <>
            <Waiting requests={all.filter(({ state }) => state === "pending")} settings={settings.data} />
            <Decided requests={all.filter(({ state }) => state !== "pending")} />
          </>
        )}
      </Loaded>
      <Loaded query={settings} lines={4}>
        {(loaded) => <Settings key={JSON.stringify(loaded)} settings={loaded} />}
      </Loaded>
    </Page>
  );
}

function Waiting(props: { requests: readonly ChangeRequest[]; settings: Approvals | undefined }) {
  if (props.requests.length === 0) {
    return (
      <Section title={t.waiting}>
        <Empty>{t.none}</Empty>
      </Section>
    );
  }
  return props.requests.map((request) => <Request key={request.id} request={request} settings={props.settings} />);
}

const authorOf = ({ author }: ChangeRequest): string =>
  `${texts.audit.kinds[author.kind]} ${author.name ?? author.id ?? ""}`.trim();

function Request({ request, settings }: { request: ChangeRequest; settings: Approvals | undefined }) {
  const { base, actor, organization } = useHere();
  const user = useUser();
  const [reason, setReason] = useState("");
  const at = base + path`/change-requests/${request.id}`;
  const touches = () => [base];
  const isOwn = request.author.kind === "user" && request.author.id === user.id;
  const isAlone = isOwn && actor === "OWNER" && organization.members.length === 0;
  const mayDecide = !isOwn && (actor === "PLATFORM_ADMIN" || settings?.by.some((role) => role === actor) === true);
  const approve = useChange({
    change: () =>
      call("POST", `${at}/approve`, {
        body: { revision: request.revision },
        query: isAlone ? { confirm: "alone" } : {},
      }),
    touches,
    done: () => t.approved,
  });
  const reject = useChange({
    change: () => call("POST", `${at}/reject`, { body: reason.trim() === "" ? {} : { reason: reason.trim() } }),
    touches,
    done: () => t.rejected,
  });
  const withdraw = useChange({
    change: () => call("POST", `${at}/withdraw`),
    touches,
    done: () => t.withdrawn,
  });
  const isBusy = approve.isPending || reject.isPending || withdraw.isPending;
  const lead = `${t.requestedBy(authorOf(request), formatMoment(request.createdAt))} · ${t.expires(formatMoment(request.expiresAt))}`;
  return (
    <Section title={request.summary} lead={lead}>
      {request.revision > 1 ? <Note tone="warn">{t.changed}</Note> : null}
      <Report request={request} />
      {isOwn && !isAlone ? <p className="hint">{t.own}</p> : null}
      {isAlone ? <p className="hint">{t.aloneLead}</p> : null}
      {mayDecide ? <Field label={t.reason} value={reason} onChange={setReason} /> : null}
      <div className="actions">
        {mayDecide || isAlone ? (
          <button
            type="button"
            className="b primary"
            aria-label={`${isAlone ? t.approveAlone : t.approve}: ${request.summary}`}
            disabled={isBusy}
            onClick={() => approve.mutate(undefined)}
          >
            {isAlone ? t.approveAlone : t.approve}
          </button>
        ) : null}
        {mayDecide ? (
          <button
            type="button"
            className="b"
            aria-label={`${t.reject}: ${request.summary}`}
            disabled={isBusy}
            onClick={() => reject.mutate(undefined)}
          >
            {t.reject}
          </button>
        ) : null}
        {isOwn ? (
          <button
            type="button"
            className="b"
            aria-label={`${t.withdraw}: ${request.summary}`}
            disabled={isBusy}
            onClick={() => withdraw.mutate(undefined)}
          >
            {t.withdraw}
          </button>
        ) : null}
      </div>
      <Failed error={approve.error ?? reject.error ?? withdraw.error} />
    </Section>
  );
}

/** Shows the counts of a report, and all of it as JSON. */
function Report({ request: { report, summary } }: { request: ChangeRequest }) {
  const counts = Object.entries((report["counts"] ?? {}) as object).filter(
    (entry): entry is [string, number] => typeof entry[1] === "number",
  );
  return (
    <>
      {counts.length === 0 ? null : (
        <Table label={`${t.report}: ${summary}`} head={[t.figure, t.value]}>
          {counts.map(([name, count]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{formatNumber(count)}</td>
            </tr>
          ))}
        </Table>
      )}
      <details>
        <summary>{t.report}</summary>
        <pre tabIndex={0}>{JSON.stringify(report, null, 2)}</pre>
      </details>
    </>
  );
}

function Decided({ requests }: { requests: readonly ChangeRequest[] }) {
  if (requests.length === 0) return null;
  return (
    <Section title={t.decided}>
      <Table label={t.decided} head={[t.what, t.state, t.by]}>
        {requests.map((request) => (
          <tr key={request.id}>
            <th scope="row">{request.summary}</th>
            <td>
              <Tag tone={request.state === "approved" ? "good" : "plain"}>{t.states[request.state]}</Tag>{" "}
              {request.reason}
            </td>
            <td>{request.decidedBy ?? ""}</td>
          </tr>
        ))}
      </Table>
    </Section>
  );
}

function Settings({ settings }: { settings: Approvals }) {
  const { base, may } = useHere();
  const [actions, setActions] = useState<readonly ApprovalAction[]>(settings.actions);
  const [by, setBy] = useState(settings.by);
  const [days, setDays] = useState(String(settings.days));
  const save = useChange({
    change: () => call("PUT", `${base}/approvals`, { body: { actions, by, days: Number(days) } }),
    touches: () => [`${base}/approvals`],
    done: () => t.saved,
  });
  if (!may("PUT", "/approvals")) return null;
  return (
    <Section title={t.settingsTitle} lead={t.settingsLead}>
      <Form label={t.settingsTitle} onSubmit={() => save.mutate(undefined)}>
        {APPROVAL_ACTIONS.map((action) => (
          <Check
            key={action}
            label={t.actions[action]}
            checked={actions.includes(action)}
            onChange={(checked) =>
              setActions(APPROVAL_ACTIONS.filter((each) => (each === action ? checked : actions.includes(each))))
            }
          />
        ))}
        <fieldset>
          <legend className="label">{t.approvers}</legend>
          {APPROVER_ROLES.map((role) => (
            <Check
              key={role}
              label={t.approverRoles[role]}
              checked={by.includes(role)}
              onChange={(checked) =>
                setBy(APPROVER_ROLES.filter((each) => (each === role ? checked : by.includes(each))))
              }
            />
          ))}
        </fieldset>
        <Field label={t.days} type="number" min={1} max={30} value={days} onChange={setDays} required />
        <Failed error={save.error} />
        <div className="actions">
          <button type="submit" className="b primary" disabled={save.isPending}>
            {t.save}
          </button>
        </div>
      </Form>
    </Section>
  );
}
