import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { BILLING_OUTCOMES, type BillingProvider } from "../../core/billing/message.ts";
import type { BillingMessage, BillingMessagePage, BillingReplay } from "../answers.ts";
import { call, path } from "../api.ts";
import { FilterChip } from "../design/filter-chip.tsx";
import { Empty, Failed, Loaded, Section } from "../design/page.tsx";
import { SearchBox } from "../design/search-box.tsx";
import { ShowMore } from "../design/show-more.tsx";
import { Status, Table } from "../design/table.tsx";
import { formatMoment, formatNumber, formatWhen } from "../format.ts";
import { useHere } from "../here.tsx";
import { useChange } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.billing;
const PAGE_SIZE = 20;
const TONES = {
  applied: "good",
  unchanged: "plain",
  stale: "plain",
  waiting: "warn",
  unmapped: "bad",
  failed: "bad",
  ignored: "plain",
} as const;
/** Outcomes of messages that may apply when they are repeated. */
const REPEATABLE = ["unmapped", "failed", "waiting"] as const;

const isRepeatable = (outcome: string): outcome is (typeof REPEATABLE)[number] =>
  (REPEATABLE as readonly string[]).includes(outcome);

/** Lists received messages with outcome and reason, and repeats those that were not applied. */
export function BillingMessages({ provider }: { provider: BillingProvider }) {
  const { base, may } = useHere();
  const [search, setSearch] = useSearchParams();
  const to = base + path`/billing/${provider}/messages`;
  const outcome = BILLING_OUTCOMES.find((each) => each === search.get("outcome")) ?? "";
  const user = search.get("user") ?? "";
  const query = { limit: PAGE_SIZE, outcome, user };
  const messages = useInfiniteQuery({
    queryKey: [to, query, "pages"],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam, signal }) =>
      call<BillingMessagePage>("GET", to, { query: { ...query, before: pageParam }, signal }),
    getNextPageParam: ({ next }) => next,
  });
  const mayRepeat = may("POST", path`/billing/${provider}/replay`);
  const choose = (value: string) =>
    setSearch((before) => {
      if (value === "") before.delete("outcome");
      else before.set("outcome", value);
      return before;
    });
  return (
    <Section
      title={t.messages}
      lead={t.messagesLead}
      actions={mayRepeat && isRepeatable(outcome) ? <RepeatAll provider={provider} outcome={outcome} /> : null}
    >
      <div className="finder">
        <SearchBox label={t.search} name="user" />
        <FilterChip
          label={t.outcome}
          value={outcome}
          onChange={choose}
          options={BILLING_OUTCOMES.map((each) => [each, t.outcomes[each]])}
        />
      </div>
      <Loaded query={messages} lines={6}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data);
          return rows.length === 0 ? (
            <Empty>{outcome === "" && user === "" ? t.noMessages : t.noMatch}</Empty>
          ) : (
            <>
              <Table
                label={t.messages}
                head={[t.received, t.type, t.user, t.outcome, t.reason, ...(mayRepeat ? [""] : [])]}
              >
                {rows.map((message) => (
                  <Row key={message.id} to={to} message={message} mayRepeat={mayRepeat} />
                ))}
              </Table>
              <ShowMore pages={messages} label={t.showMore} />
            </>
          );
        }}
      </Loaded>
    </Section>
  );
}

function Row({ to, message, mayRepeat }: { to: string; message: BillingMessage; mayRepeat: boolean }) {
  const { base } = useHere();
  const { id, type, subscription, userId, receivedAt, outcome, reason } = message;
  const repeat = useChange({
    change: () => call<BillingMessage>("POST", to + path`/${id}/replay`),
    touches: () => [`${base}/billing`, `${base}/contracts`],
    done: (answer) => t.repeated(t.outcomes[answer.outcome]),
  });
  return (
    <tr>
      <th scope="row">
        <time dateTime={receivedAt} title={formatMoment(receivedAt)}>
          {formatWhen(receivedAt, Date.now())}
        </time>
      </th>
      <td title={id}>
        {type}
        {subscription === null ? null : <p className="hint mono">{subscription}</p>}
      </td>
      <td>
        {userId === null ? (
          <>
            <span aria-hidden="true">–</span>
            <span className="visually-hidden">{texts.common.none}</span>
          </>
        ) : (
          <Link to={path`../contracts/${userId}`}>{userId}</Link>
        )}
      </td>
      <td>
        <Status tone={TONES[outcome]}>{t.outcomes[outcome]}</Status>
      </td>
      <td>
        {reason}
        <Failed error={repeat.error} />
      </td>
      {mayRepeat ? (
        <td>
          {isRepeatable(outcome) ? (
            <span className="actions end">
              <button
                type="button"
                className="b small"
                aria-label={t.repeatOne(id)}
                disabled={repeat.isPending}
                onClick={() => repeat.mutate(undefined)}
              >
                {t.repeat}
              </button>
            </span>
          ) : null}
        </td>
      ) : null}
    </tr>
  );
}

function RepeatAll({ provider, outcome }: { provider: BillingProvider; outcome: (typeof REPEATABLE)[number] }) {
  const { base } = useHere();
  const repeat = useChange({
    change: () => call<BillingReplay>("POST", base + path`/billing/${provider}/replay`, { query: { outcome } }),
    touches: () => [`${base}/billing`, `${base}/contracts`],
    done: ({ replayed }) => t.repeatedAll(formatNumber(replayed)),
  });
  return (
    <>
      <Failed error={repeat.error} />
      <button type="button" className="b" disabled={repeat.isPending} onClick={() => repeat.mutate(undefined)}>
        {t.repeatAll(t.outcomes[outcome])}
      </button>
    </>
  );
}
