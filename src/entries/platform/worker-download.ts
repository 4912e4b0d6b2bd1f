import type { FetchOnce } from "./download.ts";
import { notPublicHost } from "./public-lookup.ts";

/** Host names that no public resolver knows. Source: RFC 6761, RFC 6762, RFC 8375. */
const LOCAL_NAME = /^[^.]+$|(^|\.)(localhost|local|internal|home\.arpa|test|invalid|onion)$/i;

/**
 * Sends one request of a download on Workers. Workers cannot inspect DNS answers, but their network has nothing private
 * behind it. So this rejects only names that are local wherever workerd runs.
 */
export const fetchOnce: FetchOnce = async (address, { isAllowed, headers, signal }) => {
  if (!isAllowed && LOCAL_NAME.test(address.hostname) && !address.hostname.startsWith("[")) {
    throw notPublicHost(address.hostname);
  }
  const answer = await fetch(address, { redirect: "manual", headers, signal });
  return {
    status: answer.status,
    location: answer.headers.get("location") ?? undefined,
    bytes: answer.body ?? [],
    drop: () => void answer.body?.cancel().catch(() => {}),
  };
};
