import { useInfiniteQuery } from "@tanstack/react-query";
import { call, callWithHeaders, path, Refused } from "../api.ts";
import type { Contract } from "../answers.ts";
import { formatMoment } from "../format.ts";
import {
  type PastAnswer,
  type ReadAt,
  readStates,
  recentMoment,
  type RecordedState,
  SECOND_MS,
  type StatePage,
} from "../past.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Loaded, Section } from "../design/page.tsx";
import { ShowMore } from "../design/show-more.tsx";
import { Tag } from "../design/table.tsx";

const t = texts.contract;

/** Lists the states of a contract until `at`, newest first, from the record that answers questions about the past. */
export function ContractHistory({ userId, at }: { userId: string; at: string | undefined }) {
  const states = useStates(userId, at);
  return (
    <Section title={t.history} lead={t.historyLead}>
      <Loaded query={states} lines={3}>
        {({ pages }) => (
          <>
            <ol className="timeline">
              {pages
                .flatMap((page) => page.states)
                .map((state) => (
                  <State key={state.asOf.since} state={state} />
                ))}
            </ol>
            {pages.map(({ refusal }) =>
              refusal === undefined ? null : (
                <p key={refusal} className="hint">
                  {t.noEarlier} {refusal}
                </p>
              ),
            )}
            <ShowMore pages={states} label={t.showEarlier} />
          </>
        )}
      </Loaded>
    </Section>
  );
}

function State({ state }: { state: RecordedState }) {
  const { since, until, cause } = state.asOf;
  return (
    <li>
      <span className="timeline-head">
        <strong>
          <time dateTime={since} title={since}>
            {formatMoment(since)}
          </time>{" "}
          –{" "}
          {until === null ? (
            t.historyNow
          ) : (
            <time dateTime={until} title={until}>
              {formatMoment(until)}
            </time>
          )}
        </strong>
        <span className="hint">{t.causes[cause]}</span>
        {Object.entries(state.contractedServices).map(([service, version]) => (
          <span key={service}>
            {service} {version} <Tag tone="plain">{state.subscriptionPlans[service] ?? texts.novation.noPlan}</Tag>{" "}
            {Object.entries(state.subscriptionAddOns[service] ?? {})
              .map(([name, quantity]) => `+ ${quantity} × ${name}`)
              .join(" ")}
          </span>
        ))}
        {Object.keys(state.contractedServices).length === 0 ? <span className="hint">{t.noServices}</span> : null}
      </span>
    </li>
  );
}

function useStates(userId: string, at: string | undefined) {
  const { base } = useHere();
  const to = base + path`/contracts/${userId}`;
  return useInfiniteQuery({
    queryKey: [to, { at }, "states"],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam, signal }): Promise<StatePage> => {
      const read: ReadAt = async (moment): Promise<PastAnswer> => {
        try {
          return { contract: await call<Contract>("GET", to, { query: { at: moment }, signal }) };
        } catch (error) {
          if (error instanceof Refused && (error.status === 400 || error.status === 404)) {
            return { refusal: error.message };
          }
          throw error;
        }
      };
      const from = pageParam ?? at;
      if (from !== undefined) return readStates(read, from, false);
      // The server's clock, because it refuses moments in its future.
      const { body, headers } = await callWithHeaders<Contract>("GET", to, { signal });
      const now = recentMoment(headers.get("date"), body);
      const latest = await readStates(read, new Date(now).toISOString(), true);
      if (latest.states.length > 0) return latest;
      // The contract may have been created after `now`, but within the same second.
      await new Promise((resolve) => setTimeout(resolve, SECOND_MS));
      return readStates(read, new Date(now + SECOND_MS).toISOString(), true);
    },
    getNextPageParam: ({ earlier }) => earlier,
  });
}
