import { Link, useSearchParams } from "react-router";
import { OVERRIDE_STATES } from "../../core/pricing/overrides.ts";
import type { Override } from "../answers.ts";
import { path } from "../api.ts";
import { FilterChip } from "../design/filter-chip.tsx";
import { Empty, Loaded, Page } from "../design/page.tsx";
import { Pager } from "../design/pager.tsx";
import { SearchBox } from "../design/search-box.tsx";
import { Status, Table } from "../design/table.tsx";
import { formatLocalDay, formatMoment, formatName, formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { actorName, TONES, Values } from "../parts/custom-terms.tsx";
import { useAskCounted } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.terms;
const PAGE_SIZE = 20;
const DAY_MS = 86_400_000;
const WITHIN = ["7", "30", "90"] as const;

/** Exceptions of all customers, those that end first on top. */
export function OverridesPage() {
  const { base } = useHere();
  const [search, setSearch] = useSearchParams();
  const page = Math.max(1, Number(search.get("page")) || 1);
  const state = OVERRIDE_STATES.find((each) => each === search.get("state")) ?? "";
  const within = WITHIN.find((each) => each === search.get("within")) ?? "";
  const choose = (name: string, value: string) =>
    setSearch((before) => {
      if (value === "") before.delete(name);
      else before.set(name, value);
      before.delete("page");
      return before;
    });
  // Whole days, so that the address of the query does not change with every drawing.
  const endsBefore =
    within === "" ? undefined : new Date((Math.floor(Date.now() / DAY_MS) + Number(within) + 1) * DAY_MS);
  const overrides = useAskCounted<Override>(`${base}/overrides`, {
    page: String(page),
    limit: String(PAGE_SIZE),
    ...(state === "" ? {} : { state }),
    ...(search.get("name") ? { name: search.get("name") ?? "" } : {}),
    ...(endsBefore === undefined ? {} : { endsBefore: endsBefore.toISOString() }),
  });
  return (
    <Page title={t.title} lead={t.lead}>
      <div className="finder">
        <SearchBox label={t.search} name="name" />
        <FilterChip
          label={t.state}
          value={state}
          onChange={(value) => choose("state", value)}
          options={OVERRIDE_STATES.map((each) => [each, t.states[each]])}
        />
        <FilterChip
          label={t.endsBefore}
          value={within}
          onChange={(value) => choose("within", value)}
          options={WITHIN.map((each) => [each, t.within[each]])}
        />
      </div>
      <Loaded query={overrides} lines={8}>
        {({ rows, total }) => (
          <>
            <p className="small soft" role="status">
              {t.found(formatNumber(total))}
            </p>
            {rows.length === 0 ? (
              <Empty>{search.size === 0 ? t.nobody : t.nothing}</Empty>
            ) : (
              <Table label={t.title} head={[t.customer, t.element, t.change, t.until, t.state, t.reason]}>
                {rows.map((override) => (
                  <tr
                    key={`${override.organizationId} ${override.userId} ${override.service} ${override.kind} ${override.name}`}
                  >
                    <th scope="row">
                      <Link to={path`../contracts/${override.userId}`}>
                        <b className="strong">{override.userId}</b>
                      </Link>
                    </th>
                    <td title={`${override.service}-${override.name}`}>{formatName(override.name)}</td>
                    <td>
                      <Values override={override} />
                    </td>
                    <td title={override.until === null ? undefined : formatMoment(override.until)}>
                      {override.until === null ? t.noEnd : formatLocalDay(override.until)}
                    </td>
                    <td>
                      <Status tone={TONES[override.state]}>{t.states[override.state]}</Status>
                    </td>
                    <td>
                      {override.reason}
                      <p className="hint">{t.by(actorName(override))}</p>
                    </td>
                  </tr>
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
