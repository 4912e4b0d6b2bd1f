import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { freePort, killOn } from "../entries/launcher.ts";
import { environmentOf, type Started, startProgram } from "./programs.ts";

const TASKER = readFileSync(resolve(import.meta.dirname, "../../src/samples/tasker.yml"), "utf8");

/** A server that runs from its tarball, with the pricing Tasker and contracts to its plan PRO. */
export interface PackagedServer {
  url: string;
  /** An organization's key of scope ALL. */
  key: string;
  organizationId: string;
  /** User key of the organization's owner. */
  userKey: string;
  contract(userId: string): Promise<void>;
  stop(): Promise<void>;
}

/** Starts the server as it is installed from its tarball, with a database of its own, and uploads a pricing. */
export const startPackagedServer = (installation: string): Promise<PackagedServer> =>
  prepareServer(async (place, folder) => {
    const env = { ...(await environmentOf("Node 20")), ...place };
    return startProgram([join(installation, "node_modules/.bin/faregate-server")], { cwd: folder, env });
  });

/** Starts a server in an empty folder, with variables for its ports and its data, and uploads a pricing. */
export async function prepareServer(
  start: (place: Record<string, string>, folder: string) => Promise<Started>,
): Promise<PackagedServer> {
  const folder = mkdtempSync(join(tmpdir(), "faregate-packaged-"));
  const place = { PORT: await freePort(), EVENTS_PORT: await freePort(), DATA_DIR: join(folder, ".data") };
  const server = await start(place, folder);
  const [, password = ""] = await server.says(/as admin with the password (\w+)/);
  const url = `http://localhost:${place.PORT}`;
  const send = async <Answer>(path: string, key: string, body: object | FormData): Promise<Answer> => {
    const headers = new Headers({ "x-api-key": key });
    if (!(body instanceof FormData)) headers.set("content-type", "application/json");
    const answer = await fetch(`${url}/api/v1${path}`, {
      method: "POST",
      headers,
      body: body instanceof FormData ? body : JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return answer.json() as Promise<Answer>;
  };
  const { apiKey } = await send<{ apiKey: string }>("/users/authenticate", "", { username: "admin", password });
  const { id } = await send<{ id: string }>("/organizations", apiKey, { name: "Tasker Inc.", owner: "admin" });
  const made = await send<{ apiKeys: { key: string }[] }>(`/organizations/${id}/api-keys`, apiKey, { scope: "ALL" });
  const key = made.apiKeys.at(-1)?.key ?? "";
  const form = new FormData();
  form.append("pricing", new Blob([TASKER]), "tasker.yml");
  await send("/services", key, form);
  return {
    url,
    key,
    organizationId: id,
    userKey: apiKey,
    contract: async (userId) =>
      send("/contracts", key, {
        userContact: { userId, username: userId },
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: "PRO" },
        subscriptionAddOns: {},
      }),
    stop: async () => {
      await server.stop();
      killOn(folder);
      rmSync(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}
