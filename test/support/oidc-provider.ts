import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  exportJWK,
  generateKeyPair,
  importJWK,
  type JWK,
  type JWTHeaderParameters,
  type JWTPayload,
  SignJWT,
} from "jose";
import { Provider } from "oidc-provider";

/** Claims of an account at the provider, beside `sub`. */
export type AccountClaims = Record<string, unknown>;

export const CLIENT = { id: "faregate", secret: "secret of the tests, 32 bytes or more" };
export const PUBLIC_CLIENT = "faregate-public";

/** A real OpenID provider on a port of this machine, whose visitors sign in without a form. */
export interface TestProvider {
  issuer: string;
  /** Accounts by `sub`. */
  accounts: Map<string, AccountClaims>;
  /** The account that the next visitor signs in with; null for one who refuses. */
  visitor: string | null;
  /** Faults: requests of a path that are never answered, answered in part, cut off, or answered with 500. */
  hangs: RegExp | undefined;
  stalls: RegExp | undefined;
  drops: RegExp | undefined;
  fails: RegExp | undefined;
  /** Replaces claims and header of the next ID tokens, which are signed again. Null: alg none. */
  forge: ((payload: JWTPayload) => { payload?: JWTPayload; header?: Partial<JWTHeaderParameters> } | null) | undefined;
  /** Signs a token with the provider's present key. */
  sign(payload: JWTPayload, header?: Partial<JWTHeaderParameters>): Promise<string>;
  /** Replaces the signing key, as providers do at any time. */
  rotateKeys(): Promise<void>;
  /** Carries out an authorization as a browser does. Returns the address at which it comes back. */
  visit(address: string): Promise<string>;
  /** Returns the logout token that the provider sends for this session of a subject. */
  logoutToken(sub: string, sid: string): Promise<string>;
  close(): Promise<void>;
}

const INTERNAL = "x-test-internal";

/** Starts a provider for a client that comes back to `redirectUri`. */
export async function startProvider(redirectUri: string): Promise<TestProvider> {
  let handle: (request: IncomingMessage, response: ServerResponse) => unknown = () => {};
  let key: JWK = {};
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`;

  let sendLogout: (sub: string, sid: string) => Promise<unknown> = async () => undefined;
  let received = "";
  const provider: TestProvider = {
    issuer,
    accounts: new Map(),
    visitor: "ada",
    hangs: undefined,
    stalls: undefined,
    drops: undefined,
    fails: undefined,
    forge: undefined,
    logoutToken: async (sub, sid) => {
      await sendLogout(sub, sid);
      return received;
    },
    sign: async (payload, header = {}) =>
      new SignJWT(payload)
        .setProtectedHeader({ alg: "RS256", kid: key.kid ?? "", ...header })
        .sign(await importJWK(key, "RS256")),
    rotateKeys: async () => {
      const pair = await generateKeyPair("RS256", { extractable: true });
      key = { ...(await exportJWK(pair.privateKey)), kid: crypto.randomUUID(), alg: "RS256", use: "sig" };
      serve();
    },
    visit: (address) => visit(address, redirectUri),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };

  function serve(): void {
    const common = { redirect_uris: [redirectUri], grant_types: ["authorization_code"], response_types: ["code"] };
    const oidc = new Provider(issuer, {
      clients: [
        {
          ...common,
          client_id: CLIENT.id,
          client_secret: CLIENT.secret,
          backchannel_logout_uri: "https://faregate.example/backchannel-logout",
          backchannel_logout_session_required: true,
        },
        { ...common, client_id: PUBLIC_CLIENT, token_endpoint_auth_method: "none" },
      ] as never,
      jwks: { keys: [key] } as never,
      cookies: { keys: ["a key of the tests"] },
      claims: {
        openid: ["sub", "sid"],
        profile: ["preferred_username", "name", "groups", "realm_access"],
        email: ["email", "email_verified"],
      },
      conformIdTokenClaims: true,
      features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true } },
      pkce: { required: () => true },
      interactions: { url: (_, { uid }) => `/interaction/${uid}` },
      findAccount: (_, sub) => ({
        accountId: sub,
        claims: () => ({ ...provider.accounts.get(sub), sub }),
      }),
      // The provider posts to no address of this machine.
      fetch: async (_, options) => {
        received = new URLSearchParams(String(options?.body)).get("logout_token") ?? "";
        return new Response(null);
      },
      ttl: { Session: 3600, Grant: 3600, Interaction: 600, AccessToken: 600, IdToken: 3600 },
    });
    const callback = oidc.callback();
    sendLogout = async (sub, sid) => {
      const client = (await oidc.Client.find(CLIENT.id)) as unknown as {
        backchannelLogout(sub: string, sid: string): Promise<void>;
      };
      await client.backchannelLogout(sub, sid);
    };
    const interact = async (request: IncomingMessage, response: ServerResponse) => {
      if (provider.visitor === null) {
        return oidc.interactionFinished(request, response, { error: "access_denied", error_description: "no" });
      }
      const { params } = await oidc.interactionDetails(request, response);
      const grant = new oidc.Grant({ accountId: provider.visitor, clientId: String(params["client_id"]) });
      grant.addOIDCScope(String(params["scope"]));
      const result = { login: { accountId: provider.visitor }, consent: { grantId: await grant.save() } };
      return oidc.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
    };
    handle = async (request, response) => {
      const path = request.url ?? "/";
      if (provider.hangs?.test(path)) return;
      if (provider.stalls?.test(path)) {
        response.writeHead(200, { "content-type": "application/json" }).write("{");
        return;
      }
      if (provider.drops?.test(path)) {
        request.socket.destroy();
        return;
      }
      if (provider.fails?.test(path)) {
        response.writeHead(500).end("provider trouble <script>");
        return;
      }
      if (path.startsWith("/interaction/")) await interact(request, response);
      else if (path === "/token" && provider.forge !== undefined && request.headers[INTERNAL] === undefined) {
        await forged(request, response);
      } else await callback(request, response);
    };
  }

  /** Answers a token request as the provider does, with another ID token. */
  async function forged(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { "content-type": type = "", authorization = "" } = request.headers;
    const answer = await fetch(`${issuer}/token`, {
      method: "POST",
      headers: { "content-type": type, authorization, [INTERNAL]: "true" },
      body: await textOf(request),
    });
    const body = (await answer.json()) as { id_token?: string };
    if (body.id_token !== undefined) {
      const payload = JSON.parse(Buffer.from(body.id_token.split(".")[1] ?? "", "base64url").toString()) as JWTPayload;
      const other = provider.forge?.(payload);
      const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
      if (other === null) body.id_token = `${encoded({ alg: "none" })}.${encoded(payload)}.`;
      else if (other !== undefined) body.id_token = await provider.sign(other.payload ?? payload, other.header);
    }
    response.writeHead(answer.status, { "content-type": "application/json" }).end(JSON.stringify(body));
  }

  await provider.rotateKeys();
  return provider;
}

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** Follows redirects with a jar of cookies, up to the client's address. */
async function visit(address: string, redirectUri: string): Promise<string> {
  const jar = new Map<string, string>();
  let next = address;
  for (let hops = 0; hops < 10; hops += 1) {
    if (next.startsWith(redirectUri)) return next;
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const answer = await fetch(next, { redirect: "manual", headers: { cookie } });
    for (const line of answer.headers.getSetCookie()) {
      const [pair = ""] = line.split(";");
      const at = pair.indexOf("=");
      if (pair.slice(at + 1) === "") jar.delete(pair.slice(0, at));
      else jar.set(pair.slice(0, at), pair.slice(at + 1));
    }
    const to = answer.headers.get("location");
    if (to === null) throw new Error(`${answer.status} at ${next}: ${(await answer.text()).slice(0, 500)}`);
    next = new URL(to, next).href;
  }
  throw new Error(`too many redirects from ${address}`);
}
