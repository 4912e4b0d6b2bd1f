import { type FetchOnce, notPublicHost } from "./download.ts";

/** Names that no public resolver knows. Source: RFC 6761, RFC 6762, RFC 8375. */
const LOCAL_NAME = /^[^.]+$|(^|\.)(localhost|local|internal|home\.arpa|test|invalid|onion)$/i;

/**
 * One step of a download on Workers. There a name is resolved where nobody can look, by a network that has nothing private
 * behind it; what is refused here are names that are local wherever workerd may run.
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
