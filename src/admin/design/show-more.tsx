/** Button below a list that loads its next page, where there is one. */
export function ShowMore({
  pages: { hasNextPage, isFetchingNextPage, fetchNextPage },
  label,
}: {
  pages: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage: () => Promise<unknown> };
  label: string;
}) {
  return hasNextPage ? (
    <div className="actions">
      <button type="button" className="b" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>
        {label}
      </button>
    </div>
  ) : null;
}
