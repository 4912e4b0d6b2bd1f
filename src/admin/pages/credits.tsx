import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearchParams } from "react-router";
import { BLOCK_ORIGINS, BLOCK_STATES, type BlockState } from "../../core/pricing/blocks.ts";
import type { Block, BlockPage } from "../answers.ts";
import { call, path } from "../api.ts";
import { FilterChip } from "../design/filter-chip.tsx";
import { Empty, Loaded, Page } from "../design/page.tsx";
import { ShowMore } from "../design/show-more.tsx";
import { Status, Table } from "../design/table.tsx";
import { formatLocalDay, formatDistance, formatMoment, formatName, formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { BLOCK_TONES } from "../parts/contract-credits.tsx";
import { actorName } from "../parts/custom-terms.tsx";
import { texts } from "../texts.ts";

const t = texts.credits;
const PAGE_SIZE = 20;
const DAY_MS = 86_400_000;
const WITHIN = ["7", "30", "90"] as const;
/** Word of the address for credits in any state: without one, the page shows the open ones. */
const ANY = "any";

/** Reads the filters of the address, and their query. */
function useFilters() {
  const [search, setSearch] = useSearchParams();
  const named = BLOCK_STATES.find((each) => each === search.get("state"));
  const state: BlockState | "" = search.get("state") === ANY ? "" : (named ?? "open");
  const origin = BLOCK_ORIGINS.find((each) => each === search.get("origin")) ?? "";
  const within = WITHIN.find((each) => each === search.get("within")) ?? "";
  const choose = (name: string, value: string) =>
    setSearch((before) => {
      if (value === "") before.delete(name);
      else before.set(name, value);
      return before;
    });
  // Whole days, so that the address of the query does not change with every drawing.
  const expiresBefore =
    within === "" ? undefined : new Date((Math.floor(Date.now() / DAY_MS) + Number(within) + 1) * DAY_MS).toISOString();
  return { state, origin, within, choose, query: { limit: PAGE_SIZE, state, origin, expiresBefore } };
}

/** Credits of all customers, newest first. */
export function CreditsPage() {
  const to = `${useHere().base}/blocks`;
  const { state, origin, within, choose, query } = useFilters();
  const blocks = useInfiniteQuery({
    queryKey: [to, query, "pages"],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam, signal }) =>
      call<BlockPage>("GET", to, { query: { ...query, before: pageParam }, signal }),
    getNextPageParam: ({ next }) => next,
  });
  return (
    <Page title={t.title} lead={t.lead}>
      <div className="chips">
        <FilterChip
          label={t.state}
          value={state}
          onChange={(value) => choose("state", value === "" ? ANY : value)}
          options={BLOCK_STATES.map((each) => [each, t.states[each]])}
        />
        <FilterChip
          label={t.endsWithin}
          value={within}
          onChange={(value) => choose("within", value)}
          options={WITHIN.map((each) => [each, t.within[each]])}
        />
        <FilterChip
          label={t.origin}
          value={origin}
          onChange={(value) => choose("origin", value)}
          options={BLOCK_ORIGINS.map((each) => [each, t.origins[each]])}
        />
      </div>
      <Loaded query={blocks} lines={8}>
        {({ pages }) => {
          const rows = pages.flatMap(({ data }) => data);
          return rows.length === 0 ? (
            <Empty>{state === "" && origin === "" && within === "" ? t.nobody : t.nothing}</Empty>
          ) : (
            <>
              <Table label={t.title} head={[t.customer, t.limit, t.rest, t.ends, t.origin, t.state, t.reason]}>
                {rows.map((block) => (
                  <Row key={block.id} block={block} />
                ))}
              </Table>
              <ShowMore pages={blocks} label={t.showMore} />
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

function Row({ block }: { block: Block }) {
  const { userId, service, limit, amount, remaining, expiresAt, origin, state, reason } = block;
  return (
    <tr>
      <th scope="row">
        <Link to={path`../contracts/${userId}`}>
          <b className="strong">{userId}</b>
        </Link>
      </th>
      <td title={service === null ? limit : `${service}-${limit}`}>{formatName(limit)}</td>
      <td className="num">{t.restOf(formatNumber(remaining), formatNumber(amount))}</td>
      <td title={expiresAt === null ? undefined : formatMoment(expiresAt)}>
        {expiresAt === null ? (
          t.never
        ) : (
          <>
            {formatLocalDay(expiresAt)}
            <p className="hint">{formatDistance(expiresAt, Date.now())}</p>
          </>
        )}
      </td>
      <td>{t.origins[origin]}</td>
      <td>
        <Status tone={BLOCK_TONES[state]}>{t.states[state]}</Status>
      </td>
      <td>
        {reason}
        {origin === "given" ? <p className="hint">{t.by(actorName(block))}</p> : null}
      </td>
    </tr>
  );
}
