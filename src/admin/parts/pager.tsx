import { useSearchParams } from "react-router";
import { texts } from "../texts.ts";

/** Page navigation of a list; the page number is in the URL as `page`. */
export function Pager({ page, pages }: { page: number; pages: number }) {
  const [, setSearch] = useSearchParams();
  const go = (to: number) =>
    setSearch((before) => {
      before.set("page", String(to));
      return before;
    });
  if (pages <= 1 && page === 1) return null;
  return (
    <nav className="actions" aria-label={texts.common.page(page, pages)}>
      <button type="button" className="button" disabled={page <= 1} onClick={() => go(page - 1)}>
        {texts.common.previous}
      </button>
      <span>{texts.common.page(page, pages)}</span>
      <button type="button" className="button" disabled={page >= pages} onClick={() => go(page + 1)}>
        {texts.common.next}
      </button>
    </nav>
  );
}

/** Navigation of a cursor-paginated list, newest first; the cursor is in the URL as `before`. */
export function OlderPager({ next }: { next: number | null }) {
  const [search, setSearch] = useSearchParams();
  const go = (to: number | null) =>
    setSearch((now) => {
      if (to === null) now.delete("before");
      else now.set("before", String(to));
      return now;
    });
  return (
    <div className="actions">
      {search.has("before") ? (
        <button type="button" className="button" onClick={() => go(null)}>
          {texts.common.newest}
        </button>
      ) : null}
      {next === null ? null : (
        <button type="button" className="button" onClick={() => go(next)}>
          {texts.common.older}
        </button>
      )}
    </div>
  );
}
