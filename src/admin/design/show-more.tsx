import { Failed } from "./page.tsx";

/** Button below a list that loads its next page, where there is one. A page that fails is said, with a retry. */
export function ShowMore({
  pages: { hasNextPage, isFetchingNextPage, isFetchNextPageError, error, fetchNextPage },
  label,
}: {
  pages: {
    hasNextPage: boolean;
    isFetchingNextPage: boolean;
    isFetchNextPageError: boolean;
    error: Error | null;
    fetchNextPage: () => Promise<unknown>;
  };
  label: string;
}) {
  if (isFetchNextPageError) return <Failed error={error} onRetry={() => void fetchNextPage()} />;
  return hasNextPage ? (
    <div className="actions">
      <button type="button" className="b" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
        {label}
      </button>
    </div>
  ) : null;
}
