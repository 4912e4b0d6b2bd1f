import { Link, useSearchParams } from "react-router";
import { SCHEDULED_STATES } from "../../core/scheduled.ts";
import type { ScheduledChange } from "../answers.ts";
import { path } from "../api.ts";
import { FilterChip } from "../design/filter-chip.tsx";
import { Empty, Loaded, Note, Page } from "../design/page.tsx";
import { Pager } from "../design/pager.tsx";
import { Status, Table } from "../design/table.tsx";
import { formatLocalDay, formatDistance, formatMoment, formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { plansThen } from "../parts/plan-names.ts";
import { describeChange, useCancel } from "../parts/upcoming.tsx";
import { useNow } from "../parts/usage-bar.tsx";
import { useAskCounted } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.upcoming;
const PAGE_SIZE = 20;
const TONES = { pending: "info", done: "good", cancelled: "plain", blocked: "bad" } as const;

/** Scheduled changes of all customers, the next ones on top. Blocked ones stay above them until somebody decides. */
export function UpcomingPage() {
  const { base } = useHere();
  const [search, setSearch] = useSearchParams();
  const page = Math.max(1, Number(search.get("page")) || 1);
  const state = SCHEDULED_STATES.find((each) => each === search.get("state")) ?? "pending";
  const asked = (state: ScheduledChange["state"], page: number) => ({
    state,
    page: String(page),
    limit: String(PAGE_SIZE),
  });
  const changes = useAskCounted<ScheduledChange>(`${base}/scheduled`, asked(state, page));
  const blocked = useAskCounted<ScheduledChange>(`${base}/scheduled`, asked("blocked", 1));
  const stuck = blocked.data?.total ?? 0;
  const choose = (value: string) =>
    setSearch((before) => {
      before.delete("page");
      if (value === "") before.delete("state");
      else before.set("state", value);
      return before;
    });
  return (
    <Page title={t.title} lead={t.lead}>
      {stuck > 0 && state !== "blocked" ? (
        <Note tone="bad">
          {t.blocked(formatNumber(stuck))}{" "}
          <button type="button" className="b plain small" onClick={() => choose("blocked")}>
            {t.showBlocked}
          </button>
        </Note>
      ) : null}
      <div className="finder">
        <FilterChip
          label={t.state}
          value={search.get("state") === null ? "" : state}
          onChange={choose}
          options={SCHEDULED_STATES.map((each) => [each, t.states[each]])}
        />
      </div>
      <Loaded query={changes} lines={8}>
        {({ rows, total }) => (
          <>
            <p className="small soft" role="status">
              {t.found(formatNumber(total))}
            </p>
            {rows.length === 0 ? (
              <Empty>{state === "pending" ? t.nobody : t.nothing}</Empty>
            ) : (
              <Table label={t.title} head={[t.when, t.customer, t.change, t.state, t.reason, ""]}>
                {rows.map((change) => (
                  <Row key={change.id} change={change} />
                ))}
              </Table>
            )}
            <Pager page={page} pages={Math.max(1, Math.ceil(total / PAGE_SIZE))} total={total} size={PAGE_SIZE} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** Occasion of a change, or its distance. */
function whenOf(change: ScheduledChange, distance: string): string {
  if (change.kind === "trialEnd") return t.endOfTrial;
  return change.kind === "novation" && change.atPeriodEnd ? t.atPeriodEnd : distance;
}

function Row({ change }: { change: ScheduledChange }) {
  const now = useNow();
  const { cancel, mayCancel } = useCancel(change);
  const [about, to] =
    change.kind === "availability"
      ? [change.serviceName, path`../services/${change.serviceName}`]
      : [change.userId, path`../contracts/${change.userId}`];
  return (
    <tr>
      <th scope="row" title={formatMoment(change.at)}>
        <b className="strong">{formatLocalDay(change.at)}</b>
        <p className="hint">{whenOf(change, formatDistance(change.at, now))}</p>
      </th>
      <td>
        <Link to={to}>
          <b className="strong">{about}</b>
        </Link>
      </td>
      <td>{plansThen(change)}</td>
      <td>
        <Status tone={TONES[change.state]}>{t.states[change.state]}</Status>
        {change.why === null ? null : <p className="hint">{change.why}</p>}
      </td>
      <td>{describeChange(change)}</td>
      <td>
        {mayCancel ? (
          <button
            type="button"
            className="b small"
            aria-label={t.cancelOf(about)}
            disabled={cancel.isPending}
            onClick={() => cancel.mutate(undefined)}
          >
            {t.cancel}
          </button>
        ) : null}
      </td>
    </tr>
  );
}
