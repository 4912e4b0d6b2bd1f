import type { Connection } from "../../src/db/connect.ts";
import { createApp } from "../../src/http/app.ts";
import { createResources } from "../../src/operations/resources.ts";
import { seedFirstAdmin } from "../../src/operations/users.ts";
import { testKeyring } from "./event-server.ts";

/**
 * Fills an empty, migrated database through the application itself, for processes that are started over it with
 * TEST_SECRETS: an ADMIN, an organization, one pricing and a contract for each end user. Returns a key of scope ALL.
 */
export async function contractUsers(
  connection: Connection,
  input: { pricing: string; service: string; plan: string; userIds: readonly string[] },
): Promise<string> {
  const keyring = await testKeyring();
  const resources = createResources(connection, {
    keyring,
    settings: { tokenLifetimeSeconds: 3600, allowPublicSignup: true },
  });
  await seedFirstAdmin(resources, { username: "admin", password: "password", organizationName: "Seeded" });
  const app = createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } });
  const call = async (path: string, key: string, body: unknown) => {
    const isForm = body instanceof FormData;
    const answer = await app.request(`/api/v1${path}`, {
      method: "POST",
      headers: { "x-api-key": key, ...(isForm ? {} : { "content-type": "application/json" }) },
      body: isForm ? body : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
  const { apiKey } = await call("/users/authenticate", "", { username: "admin", password: "password" });
  const organization = await call("/organizations", apiKey, { name: "Seeded", owner: "admin" });
  const key: string = organization.apiKeys[0].key;
  const form = new FormData();
  form.append("pricing", new Blob([input.pricing]), "pricing.yml");
  await call("/services", key, form);
  for (const userId of input.userIds) {
    await call("/contracts", key, {
      userContact: { userId, username: userId },
      contractedServices: { [input.service]: "1.0.0" },
      subscriptionPlans: { [input.service]: input.plan },
      subscriptionAddOns: {},
    });
  }
  await resources.callCounter.flush();
  return key;
}
