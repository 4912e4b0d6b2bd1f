import type { VerifierCase } from "./verifier-cases.ts";

/* The service that the areas of the suite test, the state that they share, and their requests and assertions. */

/** The service that is tested, reached over a socket. */
export interface Service {
  /** Address without a final slash. */
  url: string;
  /** `path` starts with a slash, after the host. */
  fetch(path: string, init?: RequestInit): Promise<Response>;
  /** The existing ADMIN. */
  admin: { username: string; password: string };
  /** Secrets that sign pricing tokens. */
  secrets: { jwtSecret: string; jwtSalt: string };
  /** An origin on the service's CORS allow list; every other is foreign. */
  allowedOrigin: string;
  /** Publishes text at a URL from which the service may fetch pricings. */
  publish(text: string): string;
  /** Returns a URL that redirects to `to`. */
  redirect(to: string): string;
  /** Sub-path under which the service serves everything as well. */
  basePath: string;
  /** Verifies tokens with faregate/verify on the runtime; see verifier-cases.ts. */
  verify(cases: readonly VerifierCase[]): Promise<readonly string[]>;
}

/** State that areas share. */
export interface World extends Service {
  adminKey: string;
  organizationId: string;
  key: string;
  evaluationKey: string;
}

export type Area = (world: World) => Promise<void>;

export const JSON_TYPE = { "content-type": "application/json" };

export const PRICING = (name: string, version = "1.0.0") => `saasName: ${name}
syntaxVersion: "3.0"
version: "${version}"
createdAt: "2025-03-01"
currency: EUR
features:
  board:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: pricingContext['features']['board'] && subscriptionContext['maxTasks'] < pricingContext['usageLimits']['maxTasks']
    serverExpression: pricingContext['features']['board'] && subscriptionContext['maxTasks'] <= pricingContext['usageLimits']['maxTasks']
  sla: { valueType: TEXT, defaultValue: "99 %, zażółć", type: GUARANTEE, expression: "pricingContext['features']['sla'] === '99.9%'" }
usageLimits:
  maxTasks: { valueType: NUMERIC, defaultValue: 5, unit: task, type: NON_RENEWABLE, trackable: true, linkedFeatures: [board] }
plans:
  FREE: { price: 0, unit: user/month, features: null }
  PRO: { price: 6, unit: user/month, features: null, usageLimits: { maxTasks: { value: 100 } } }
`;

export interface Answer {
  status: number;
  headers: Headers;
  /** Parsed JSON; undefined for an empty body. */
  body: unknown;
  /** Reads the body at a slash-separated path; undefined if nothing is there. */
  at(path: string): unknown;
}

export async function ask(
  world: Service,
  method: string,
  path: string,
  given: { key?: string; body?: unknown; text?: string; headers?: Record<string, string> },
): Promise<Answer> {
  const headers: Record<string, string> = { ...given.headers };
  if (given.key !== undefined) headers["x-api-key"] = given.key;
  const text = given.text ?? (given.body === undefined ? undefined : JSON.stringify(given.body));
  const init: RequestInit = { method, headers };
  if (text !== undefined) Object.assign(init, { body: text, headers: { ...headers, ...JSON_TYPE } });
  const answer = await world.fetch(`/api/v1${path}`, init);
  return answerOf(answer);
}

export async function answerOf(answer: Response): Promise<Answer> {
  const text = await answer.text();
  const body: unknown = text === "" ? undefined : JSON.parse(text);
  return {
    status: answer.status,
    headers: answer.headers,
    body,
    at: (path) =>
      path.split("/").reduce<unknown>((at, name) => (at as Record<string, unknown> | null | undefined)?.[name], body),
  };
}

export async function uploadFile(world: World, path: string, text: string, field = "pricing"): Promise<Answer> {
  const body = new FormData();
  body.append(field, new Blob([text]), "pricing.yml");
  return answerOf(await world.fetch(`/api/v1${path}`, { method: "POST", headers: { "x-api-key": world.key }, body }));
}

export function equal(actual: unknown, expected: unknown, what: string): void {
  const [is, shouldBe] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (is !== shouldBe) throw new Error(`${what}: ${is} instead of ${shouldBe}`);
}

export function matches(actual: unknown, expected: RegExp, what: string): void {
  if (!expected.test(String(actual))) throw new Error(`${what}: ${String(actual)} does not match ${expected}`);
}
