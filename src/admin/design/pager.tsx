import { useEffect } from "react";
import { useSearchParams } from "react-router";
import { formatNumber } from "../format.ts";
import { texts } from "../texts.ts";

/**
 * Page navigation of a list; the page number is in the URL as `page`. With a total it names the rows that are shown. A page
 * that the list has no longer is replaced by its last one.
 */
export function Pager(props: { page: number; pages: number; total?: number; size?: number }) {
  const { page, pages, total, size = 0 } = props;
  const [, setSearch] = useSearchParams();
  const go = (to: number) =>
    setSearch((before) => {
      before.set("page", String(to));
      return before;
    });
  useEffect(() => {
    if (page <= pages || page === 1) return;
    setSearch((before) => (before.set("page", String(Math.max(1, pages))), before), { replace: true });
  }, [page, pages, setSearch]);
  if (pages <= 1 || page > pages) return null;
  return (
    <nav className="row between small soft" aria-label={texts.common.page(page, pages)}>
      <span>
        {total === undefined
          ? texts.common.page(page, pages)
          : texts.common.range(
              formatNumber((page - 1) * size + 1),
              formatNumber(Math.min(page * size, total)),
              formatNumber(total),
            )}
      </span>
      <span className="row">
        <button type="button" className="b small" disabled={page <= 1} onClick={() => go(page - 1)}>
          {texts.common.previous}
        </button>
        <button type="button" className="b small" disabled={page >= pages} onClick={() => go(page + 1)}>
          {texts.common.next}
        </button>
      </span>
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
        <button type="button" className="b" onClick={() => go(null)}>
          {texts.common.newest}
        </button>
      ) : null}
      {next === null ? null : (
        <button type="button" className="b" onClick={() => go(next)}>
          {texts.common.older}
        </button>
      )}
    </div>
  );
}
