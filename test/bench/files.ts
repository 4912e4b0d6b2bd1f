import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCli } from "../../src/cli/cli.ts";
import { connect } from "../../src/db/postgres/connect.ts";
import { startEmbeddedPostgres } from "../../src/db/postgres/embedded.ts";
import { migrate } from "../../src/db/migrate.ts";
import { startRestServer } from "../support/event-server.ts";
import { MIGRATIONS } from "../support/postgres-server.ts";
import { pricingText } from "../support/pricings.ts";
import { contractUsers } from "../support/seed.ts";
import type { BenchRow } from "./pricing.ts";

/* Measures `faregate plan` of a folder with 20 versions, of which one takes the place of another with 10,000 contracts. */

const VERSIONS = 20;
const CONTRACTS = 10_000;
const LIMIT_SECONDS = 10;

const versionOf = (number: number) =>
  pricingText({ version: `1.0.${number}`, createdAt: `2025-03-${String(number + 1).padStart(2, "0")}` });

/** Files of a folder whose newest version is not uploaded, and whose first one is archived for it. */
function folder(): Map<string, string> {
  const numbers = Array.from({ length: VERSIONS }, (_, index) => index);
  const files = new Map(numbers.map((number) => [`folder/${number}.yml`, versionOf(number)]));
  const lines = numbers.map((number) => `      - { file: ${number}.yml${number === 0 ? ", state: archived" : ""} }\n`);
  return files.set("folder/faregate.yml", `faregate: 1\nservices:\n  Acme:\n    versions:\n${lines.join("")}`);
}

/** Runs a command over files in memory. @throws Error for another exit code. */
async function faregate(command: string, server: string, key: string, code: number, out: (text: string) => void) {
  const files = folder();
  let errors = "";
  const done = await runCli([command, "folder"], {
    version: "0.0.0",
    env: { FAREGATE_URL: server, FAREGATE_API_KEY: key },
    fetch,
    now: () => new Date(),
    readFile: async (path) => files.get(path),
    importSpace: () => Promise.reject(new Error("no database here")),
    writeFile: async () => {},
    realPath: async (path) => `/${path}`,
    listFolder: async () => [],
    out,
    err: (text) => (errors += text),
  });
  if (done !== code) throw new Error(`${command} exited with ${done}: ${errors}`);
}

export async function run(): Promise<BenchRow[]> {
  const data = await mkdtemp(join(tmpdir(), "faregate-bench-files-"));
  const database = await startEmbeddedPostgres({ dataDir: data, password: crypto.randomUUID() });
  try {
    await migrate(database.url, MIGRATIONS);
    const connection = connect(database.url);
    const key = await contractUsers(connection, {
      pricing: versionOf(0),
      service: "Acme",
      plan: "PRO",
      userIds: ["user"],
    });
    const sql = connection.client;
    const copies = sql`generate_series(2, ${CONTRACTS}::int) n`;
    await sql`insert into contracts (id, organization_id, user_id, username, start_date, end_date, auto_renew)
      select 'copy-' || n, organization_id, 'copy-' || n, 'copy-' || n, start_date, end_date, true from contracts, ${copies}`;
    await sql`insert into contract_services (contract_id, service_id, pricing_id, position, plan, add_ons)
      select 'copy-' || n, cs.service_id, cs.pricing_id, 0, case when n % 2 = 0 then 'PRO' else 'FREE' end, null
      from contract_services cs, ${copies}`;
    await sql.unsafe("vacuum analyze");
    const command = [process.execPath, "--import", "tsx", "src/entries/node.ts"] as const;
    const server = await startRestServer(command, database.url);
    for (let number = 1; number < VERSIONS - 1; number += 1) {
      const form = new FormData();
      form.append("pricing", new Blob([versionOf(number)]), "pricing.yml");
      const headers = { "x-api-key": key };
      await fetch(`${server.url}/api/v1/services/Acme/pricings`, { method: "POST", headers, body: form });
    }
    let text = "";
    const started = performance.now();
    await faregate("plan", server.url, key, 2, (part) => (text += part));
    const seconds = (performance.now() - started) / 1000;
    if (!text.includes("10000 contracts")) throw new Error(text);
    await server.stop();
    await connection.close();
    return [
      {
        name: `plan of ${VERSIONS} versions and ${CONTRACTS} contracts, in seconds`,
        value: seconds,
        target: `<= ${LIMIT_SECONDS}`,
        ok: seconds <= LIMIT_SECONDS,
      },
    ];
  } finally {
    await database.stop();
    await rm(data, { recursive: true, force: true });
  }
}
