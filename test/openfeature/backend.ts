import { expect } from "vitest";
import { type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { upload } from "../support/contracting.ts";
import { layLine, type Line } from "./line.ts";

/*
 * The service is named "boolean" to match the flag keys of OpenFeature's provider test suite (specification, appendix
 * F). boolean-flag is on, boolean-zero-flag is off, boolean-changing-flag is on in version 1.0.0, and missing-flag does
 * not exist.
 */
const pricing = (version: number, changing: boolean) => `
saasName: Boolean
syntaxVersion: "3.0"
version: "${version}.0.0"
createdAt: "2025-01-0${version}"
currency: EUR
features:
  flag: { valueType: BOOLEAN, defaultValue: true, type: DOMAIN, expression: "pricingContext['features']['flag']" }
  zero-flag: { valueType: BOOLEAN, defaultValue: false, type: DOMAIN, expression: "pricingContext['features']['zero-flag']" }
  changing-flag: { valueType: BOOLEAN, defaultValue: ${changing}, type: DOMAIN, expression: "pricingContext['features']['changing-flag']" }
  broken-flag: { valueType: TEXT, defaultValue: "hi", type: DOMAIN, expression: "pricingContext['features']['broken-flag']" }
  limited-flag:
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: pricingContext['features']['limited-flag'] && subscriptionContext['tasks'] < pricingContext['usageLimits']['tasks']
usageLimits:
  tasks: { valueType: NUMERIC, defaultValue: 10, unit: task, type: NON_RENEWABLE, trackable: true }
plans:
  ONLY: { price: 0, unit: user/month, features: {} }
`;

/** The real server process below a sub-path, behind a line that tests can cut, and the same database in process. */
export interface Backend {
  url: string;
  key: string;
  line: Line;
  api: TestApi;
  contract(userId: string): Promise<void>;
  use(userId: string, amount: number): Promise<void>;
  /** Publishes this version, from 2 on, and archives the previous one, so that contracts move to it. */
  succeed(version: number, changing: boolean): Promise<void>;
  close(): Promise<void>;
}

export async function startBackend(): Promise<Backend> {
  const keyring = await testKeyring();
  const api = await createTestApi({ resources: { keyring, now: () => new Date() } });
  const server: RunningServer = await startEventServer(api.database.url, { BASE_URL_PATH: "/fare" });
  const line = await layLine(`${server.url}/fare`);
  const key = api.callers.all.key;
  await upload(api, key, pricing(1, true));
  const done = async (call: ReturnType<TestApi["call"]>, status: number) => {
    const answer = await call;
    expect(answer, JSON.stringify(answer.body)).toMatchObject({ status });
  };
  return {
    url: line.url,
    key: api.callers.evaluation.key,
    line,
    api,
    contract: (userId) => {
      const body = {
        userContact: { userId, username: userId },
        contractedServices: { boolean: "1.0.0" },
        subscriptionPlans: { boolean: "ONLY" },
        subscriptionAddOns: {},
      };
      return done(api.call("POST", "/contracts", { key, body }), 201);
    },
    use: (userId, amount) =>
      done(
        api.call("POST", `/features/${userId}/boolean-limited-flag`, { key, body: { "boolean-tasks": amount } }),
        200,
      ),
    succeed: async (version, changing) => {
      await upload(api, key, pricing(version, changing));
      const body = { subscriptionPlan: "ONLY", subscriptionAddOns: {} };
      const path = `/services/Boolean/pricings/${version - 1}.0.0?availability=archived`;
      await done(api.call("PUT", path, { key, body }), 200);
    },
    close: async () => {
      await line.close();
      expect(await server.stop()).toBe(0);
      await api.close();
    },
  };
}
