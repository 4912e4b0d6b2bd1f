import { serviceAddress } from "../../client/address.ts";
import { listOf, segment, Transport } from "../../client/back/transport.ts";
import { isObject } from "../../client/pricing-token.ts";
import { ServiceRequestError } from "../../client/service-request-error.ts";
import { CliFailure, type Io } from "../command.ts";
import { isNamed, isText, Server } from "./server.ts";

/** Longest wait for one answer. Predictions read every contract. */
const TIMEOUT_MS = 300_000;
/** Organizations that an error names at most. */
const ORGANIZATIONS = 50;

interface Organization {
  readonly id: string;
  readonly name: string;
  readonly owner: string;
  readonly members: readonly { readonly username: string; readonly role: string }[];
}
const isOrganization = (value: unknown): value is Organization =>
  isObject(value) && isText(value["id"]) && isText(value["owner"]) && Array.isArray(value["members"]);
const isPage = (value: unknown): value is { data: Organization[]; pagination?: { total?: unknown } } =>
  isObject(value) && listOf(isOrganization)(value["data"]);
const isIdentity = (value: unknown): value is { id: string; name: string } =>
  isNamed(value) && isText(Reflect.get(value, "id"));
const isMe = (value: unknown): value is { username: string; role: string } =>
  isObject(value) && isText(value["username"]) && isText(value["role"]);

/** Address and key of a server, as options and environment give them. */
export interface ServerOptions {
  server?: string;
  key?: string;
  organization?: string;
}

/**
 * Connects with the organization of a key.
 * @throws CliFailure without an address or a key, for several organizations, and for a role that may not manage.
 */
export async function connect(options: ServerOptions, io: Io, intent: "manage" | "read"): Promise<Server> {
  // Empty ones are variables of a script that are not set.
  const given = (option: string | undefined, variable: string) => (option ?? io.env[variable]) || undefined;
  const url = given(options.server, "FAREGATE_URL");
  const apiKey = given(options.key, "FAREGATE_API_KEY");
  const wanted = given(options.organization, "FAREGATE_ORGANIZATION");
  if (url === undefined) throw new CliFailure("Name the server: set FAREGATE_URL, or give --server.");
  if (apiKey === undefined) throw new CliFailure("A key is needed: set FAREGATE_API_KEY, or give --key.");
  try {
    serviceAddress(url);
  } catch {
    throw new CliFailure(`${url} is no address of a server: it must begin with http:// or https://`);
  }
  const transport = new Transport({ url, apiKey, fetch: io.fetch, timeoutMs: TIMEOUT_MS, deadlineMs: TIMEOUT_MS });
  const isUser = apiKey.startsWith("usr_");
  return isUser ? connectUser(transport, wanted, intent) : connectKey(transport, wanted, intent);
}

async function connectKey(
  transport: Transport,
  wanted: string | undefined,
  intent: "manage" | "read",
): Promise<Server> {
  const organization = await transport.ask({ method: "GET", path: "/organization" }, isIdentity);
  if (wanted !== undefined && wanted !== organization.id) {
    throw new CliFailure(
      `The key belongs to the organization ${organization.name} (${organization.id}), not to ${wanted}`,
    );
  }
  const server = new Server(transport, organization, { isUser: false, isOwner: false, isAdmin: false });
  // No answer names the scope of a key. Listing webhooks needs the same one as managing services.
  if (intent === "manage") await server.webhooks();
  return server;
}

async function connectUser(
  transport: Transport,
  wanted: string | undefined,
  intent: "manage" | "read",
): Promise<Server> {
  const me = await transport.ask({ method: "GET", path: "/users/me" }, isMe);
  const { id, name, owner, members } = await organizationOf(transport, wanted);
  const isPlatformAdmin = me.role === "ADMIN";
  const role = owner === me.username ? "OWNER" : members.find(({ username }) => username === me.username)?.role;
  if (intent === "manage" && !isPlatformAdmin && (role === undefined || role === "EVALUATOR")) {
    throw new CliFailure(`${me.username} needs the role MANAGER in the organization ${name}, or a higher one`);
  }
  const isOwner = isPlatformAdmin || role === "OWNER";
  return new Server(transport, { id, name }, { isUser: true, isOwner, isAdmin: isOwner || role === "ADMIN" });
}

async function organizationOf(transport: Transport, wanted: string | undefined): Promise<Organization> {
  if (wanted !== undefined) {
    return transport.ask({ method: "GET", path: `/organizations${segment("organization", wanted)}` }, isOrganization);
  }
  const { data, pagination } = await transport.ask(
    { method: "GET", path: "/organizations", query: { limit: ORGANIZATIONS } },
    isPage,
  );
  const [first] = data;
  // Platform ADMINs get pages, of which one may have a single organization: PAGE_LIMIT lowers their size.
  if (first !== undefined && (pagination?.total ?? data.length) === 1) return first;
  if (first === undefined) throw new CliFailure("The key belongs to no organization");
  const names = data.map(({ id, name }) => `\n  ${id} ${name}`).join("");
  throw new CliFailure(`The key sees several organizations. Give --organization with the id of one:${names}`);
}

/** Runs a command against a server, and turns the server's errors into failures of the command. */
export async function reporting<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ServiceRequestError) throw new CliFailure(error.message, { cause: error });
    throw error;
  }
}
