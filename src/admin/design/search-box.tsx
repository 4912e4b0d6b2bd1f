import { Search } from "lucide-react";
import { useEffect, useState } from "react";
import { useSearchParams } from "react-router";
import { Field } from "./field.tsx";

const PAUSE_MS = 300;

/** A debounced search field, kept in the URL as `q` or `name`. A new search returns to page 1. */
export function SearchBox({ label, name = "q" }: { label: string; name?: string }) {
  const [search, setSearch] = useSearchParams();
  const kept = search.get(name) ?? "";
  const [text, setText] = useState(kept);
  useEffect(() => setText(kept), [kept]);
  useEffect(() => {
    if (text === kept) return undefined;
    const { pathname } = window.location;
    const timer = setTimeout(() => {
      // The user has left for a page that is still loading: a search would lead back.
      if (window.location.pathname !== pathname) return;
      setSearch(
        (before) => {
          if (text === "") before.delete(name);
          else before.set(name, text);
          before.delete("page");
          return before;
        },
        { replace: true },
      );
    }, PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text, kept, name, setSearch]);
  return (
    <div className="search-box">
      <Field label={label} icon={Search} type="search" value={text} onChange={setText} />
    </div>
  );
}
