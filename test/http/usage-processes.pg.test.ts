import { afterAll, beforeAll } from "vitest";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { createApp } from "../../src/http/app.ts";
import { createResources } from "../../src/operations/resources.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { upload } from "../support/contracting.ts";
import { testUsageThroughMany, USAGE_PRICING } from "../support/usage-through-many.ts";

/* Three applications with their own pools and batches share one database, like processes. */

let api: TestApi;
const connections: Connection[] = [];
const apps: ReturnType<typeof createApp>[] = [];

beforeAll(async () => {
  api = await createTestApi();
  await upload(api, api.callers.all.key, USAGE_PRICING);
  for (let i = 0; i < 3; i += 1) {
    const connection = connect(api.database.url);
    connections.push(connection);
    const { keyring, settings, now } = api.resources;
    const resources = createResources(connection, { keyring, settings, now });
    apps.push(createApp({ open: () => resources, settings: { allowedOrigins: [], baseUrlPath: "" } }));
  }
});
afterAll(async () => {
  await Promise.all(connections.map((connection) => connection.close(0)));
  await api.close();
});

testUsageThroughMany(() => ({
  api,
  request: (process, path, init) => {
    const app = apps[process % apps.length];
    if (app === undefined) throw new Error("there is no application");
    return app.request(path, init);
  },
}));
