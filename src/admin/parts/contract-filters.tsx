import { X } from "lucide-react";
import { useSearchParams } from "react-router";
import { CHOSEN_STATES, type ContractChoice } from "../contract-list.ts";
import { usePricing, useServices } from "../services.ts";
import { texts } from "../texts.ts";
import { FilterChip } from "../design/filter-chip.tsx";
import { SearchBox } from "../design/search-box.tsx";

const t = texts.contracts;
const FILTERS = ["q", "service", "version", "plan", "group", "state"];

/** Filters of the contract list, all kept in the URL. */
export function ContractFilters({ choice }: { choice: ContractChoice }) {
  const [search, setSearch] = useSearchParams();
  const isFiltered = FILTERS.some((name) => search.has(name));
  const services = useServices();
  const service = services.data?.find(({ name }) => name.toLowerCase() === choice.service.toLowerCase());
  const versions = Object.keys({ ...service?.activePricings, ...service?.archivedPricings });
  const pricing = usePricing(service?.name, choice.version === "" ? versions[0] : choice.version);
  const set = (changes: Record<string, string>) => {
    setSearch((before) => {
      for (const [name, value] of Object.entries({ ...changes, page: "" })) {
        if (value === "") before.delete(name);
        else before.set(name, value);
      }
      return before;
    });
  };
  return (
    <div className="filters fields">
      <SearchBox label={t.search} />
      <SearchBox label={t.group} name="group" />
      <div className="chips">
        <FilterChip
          label={t.service}
          value={service?.name ?? ""}
          onChange={(name) => set({ service: name, version: "", plan: "" })}
          options={(services.data ?? []).map(({ name }) => [name, name] as const)}
        />
        {service === undefined ? null : (
          <>
            <FilterChip
              label={t.version}
              value={choice.version}
              onChange={(version) => set({ version })}
              options={versions.map((each) => [each, each] as const)}
            />
            <FilterChip
              label={t.plan}
              value={choice.plan}
              onChange={(plan) => set({ plan })}
              options={Object.keys(pricing.data?.plans ?? {}).map((each) => [each, each] as const)}
            />
          </>
        )}
        <FilterChip
          label={t.inState}
          value={choice.state}
          onChange={(state) => set({ state })}
          options={CHOSEN_STATES.map((state) => [state, nameOf(state)] as const)}
        />
        {isFiltered ? (
          <button type="button" className="b plain" onClick={() => setSearch({})}>
            <X />
            {t.clear}
          </button>
        ) : null}
      </div>
    </div>
  );
}

function nameOf(state: (typeof CHOSEN_STATES)[number]): string {
  if (state === "near") return t.near;
  return state === "trial" ? texts.upcoming.trial : t.renewal[state];
}
