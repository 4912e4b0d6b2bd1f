import * as RadixTabs from "@radix-ui/react-tabs";
import type { ReactNode } from "react";
import { useSearchParams } from "react-router";
import { formatNumber } from "../format.ts";

/** Tabs with arrow keys; the current one is kept in the URL. */
export function Tabs(props: {
  label: string;
  tabs: readonly { id: string; title: string; count?: number; content: ReactNode }[];
}) {
  const [search, setSearch] = useSearchParams();
  const first = props.tabs[0]?.id ?? "";
  const asked = search.get("tab");
  const current = props.tabs.some(({ id }) => id === asked) ? (asked ?? first) : first;
  const show = (id: string) => {
    setSearch(
      (before) => {
        before.set("tab", id);
        return before;
      },
      { replace: true },
    );
  };
  return (
    <RadixTabs.Root value={current} onValueChange={show} className="tabbed">
      <RadixTabs.List className="tabs" aria-label={props.label}>
        {props.tabs.map(({ id, title, count }) => (
          <RadixTabs.Trigger key={id} value={id} className="tab">
            {title}
            {count === undefined ? null : <span className="count">{formatNumber(count)}</span>}
          </RadixTabs.Trigger>
        ))}
      </RadixTabs.List>
      {props.tabs.map(({ id, content }) => (
        <RadixTabs.Content key={id} value={id} className="tab-content">
          {content}
        </RadixTabs.Content>
      ))}
    </RadixTabs.Root>
  );
}
