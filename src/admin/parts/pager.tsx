import { useSearchParams } from "react-router";
import { texts } from "../texts.ts";

/** Goes to other pages of a list; the page is in the address as `page`. */
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
