import { Refused } from "../api.ts";
import { texts } from "../texts.ts";
import { Failed, Skeleton } from "../design/page.tsx";

/** Placeholder while a pricing loads, or the reason why it cannot be shown. */
export function NoPricing(props: { failure: Error | undefined; service: string; version: string }) {
  const { failure, service, version } = props;
  if (failure === undefined) return <Skeleton />;
  const isGone = failure instanceof Refused && failure.status === 404;
  return isGone ? (
    <p className="note warn">{texts.contract.versionGone(service, version)}</p>
  ) : (
    <Failed error={failure} />
  );
}
