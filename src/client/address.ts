/** Addresses of one deployment, derived from its URL. Source: contract clients §1.3. */
export interface ServiceAddress {
  /** Base of the HTTP interface, without a trailing slash. */
  httpUrl: string;
  /** Event channel as the specification names it. The handshake goes to `socketOrigin` + `enginePath`. */
  wsUrl: string;
  /** `ws://host:port` or `wss://host:port`, without a path: Socket.IO would read a path as a namespace. */
  socketOrigin: string;
  /** Path of the handshake, with a trailing slash. */
  enginePath: string;
}

/**
 * Derives the addresses below `url`. Accepts the base of the HTTP interface too, since guides call that `$URL`.
 * @throws Error that names `config.url` unless it is an absolute http(s) URL.
 */
export function serviceAddress(url: unknown): ServiceAddress {
  const parsed = typeof url === "string" ? parseUrl(url) : undefined;
  if (!parsed || !/^https?:$/.test(parsed.protocol)) {
    throw new Error("config.url must be an absolute http(s) URL");
  }
  const prefix = parsed.pathname.replace(/\/+$/, "").replace(/\/api\/v1$/, "");
  const socketOrigin = parsed.origin.replace("http", "ws");
  return {
    httpUrl: `${parsed.origin}${prefix}/api/v1`,
    wsUrl: `${socketOrigin}${prefix}/api/v1/events`,
    socketOrigin,
    enginePath: `${prefix}/events/`,
  };
}

/**
 * Returns true if a text can be a segment of a request path, as the id of a user must. Dots and lone surrogates cannot: URL
 * parsing resolves dots even when percent-encoded, and half a surrogate pair has no encoding.
 */
export function isSegment(text: unknown): text is string {
  return typeof text === "string" && !/^(\s*|\.\.?)$|\p{Cs}/u.test(text);
}

function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}
