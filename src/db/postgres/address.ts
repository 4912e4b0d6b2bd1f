/** The parts of a database URL that programs other than the driver need. */
export interface DatabaseAddress {
  protocol: string;
  /** Hosts with ports, as written: `a:5432,b:5432`. The folder of the socket, if `?host=` names one. */
  hosts: string;
  /** Host names without ports, in the same order, or that folder, and their ports. Default port: 5432. */
  names: readonly string[];
  ports: readonly string[];
  username: string;
  password: string;
  database: string;
  parameters: URLSearchParams;
}

const HOSTS = /^([a-z]+:\/\/(?:[^/?#]*@)?)([^/?#]*)/i;

/**
 * Parses a database URL, which may name several hosts: `postgres://user@a:5432,b:5432/name`. The driver connects to the
 * first one that `target_session_attrs` accepts. Undefined for a text that is no such URL.
 */
export function parseDatabaseUrl(text: string): DatabaseAddress | undefined {
  const [, start = "", hosts = ""] = HOSTS.exec(text) ?? [];
  const each = hosts.split(",").map((host) => start + host);
  if (!each.every((one) => URL.canParse(one)) || (each.length > 1 && each.includes(start))) return undefined;
  const rest = text.slice(start.length + hosts.length);
  const first = `${each[0] ?? ""}${rest}`;
  if (!URL.canParse(first)) return undefined;
  const url = new URL(first);
  const urls = each.map((one) => new URL(one));
  const folder = socketFolderOf(url.searchParams);
  try {
    return {
      protocol: url.protocol,
      hosts: folder ?? hosts,
      names: folder === undefined ? urls.map(({ hostname }) => hostname.replace(/^\[|\]$/g, "")) : [folder],
      ports: (folder === undefined ? urls : urls.slice(0, 1)).map(({ port }) => port || "5432"),
      username: decodeURIComponent(url.username),
      password: decodeURIComponent(url.password),
      database: decodeURIComponent(url.pathname.slice(1)),
      parameters: url.searchParams,
    };
  } catch {
    // A percent sign that begins no escape. The driver would fail as well.
    return undefined;
  }
}

/**
 * Parameters that hosts put into their URLs for libpq and for ORMs. The driver sends what it does not know to Postgres, which
 * refuses the connection. Those about certificates stay, since nothing here reads them.
 */
const FOR_OTHERS = new Set(
  (
    "channel_binding gssencmode keepalives keepalives_count keepalives_idle keepalives_interval load_balance_hosts " +
    "require_auth tcp_user_timeout uselibpqcompat connection_limit pgbouncer pool_timeout schema socket_timeout " +
    "statement_cache_size supa"
  ).split(" "),
);

/**
 * Returns the arguments of the driver for a database URL, without the parameters that only other programs understand.
 * `?host=/folder` leads to the Unix-domain socket there, as for libpq: the driver does not know it.
 */
export function forDriver<Options extends object>(
  text: string,
  options: Options,
): [url: string, options: Options & { path?: string }] {
  const start = text.indexOf("?");
  if (start === -1) return [text, options];
  const address = text.slice(0, start);
  const given = text.slice(start + 1).split("&");
  const folder = socketFolderOf(new URLSearchParams(text.slice(start)));
  const parameters = given.filter((parameter) => {
    const [name = "", value] = parameter.split("=");
    const isOurs = name === "host" && folder !== undefined;
    return !isOurs && !FOR_OTHERS.has(name) && !(name === "target_session_attrs" && value === "any");
  });
  const url = parameters.length === 0 ? address : `${address}?${parameters.join("&")}`;
  if (folder === undefined) return [url, options];
  return [url, { ...options, path: socketPath(folder, parseDatabaseUrl(text)?.ports[0]) }];
}

function socketFolderOf(parameters: URLSearchParams): string | undefined {
  const host = parameters.get("host");
  return host?.startsWith("/") === true ? host : undefined;
}

/** Path of the socket of a server with this port, as Postgres names it. */
export const socketPath = (folder: string, port: string | number = "5432"): string => `${folder}/.s.PGSQL.${port}`;

/** Returns a database URL that leads to the Unix-domain socket in a folder. Its host and port stay in it. */
export function overSocket(url: string, folder: string): string {
  return `${url}${url.includes("?") ? "&" : "?"}host=${encodeURIComponent(folder)}`;
}

/** Returns a database URL without the folder of a Unix-domain socket, for programs that cannot reach one. */
export function overTcp(url: string): string {
  const parsed = parseDatabaseUrl(url);
  if (parsed === undefined || socketFolderOf(parsed.parameters) === undefined) return url;
  return url.replace(/([?&])host=[^&]*(&?)/, (_, before: string, after: string) => (after === "" ? "" : before));
}
