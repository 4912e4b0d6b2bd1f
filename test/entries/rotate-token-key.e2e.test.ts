import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { REST, type RunningServer, startRestServer, TEST_SECRETS } from "../support/event-server.ts";

/* `npm run rotate-token-key` beside two REST processes. Source: contract tokens-and-leases §2.3 and cases 8 to 10. */

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const ISO = String.raw`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z`;
const KID = "[A-Za-z0-9_-]{43}";

let database: TestDatabase;
let servers: RunningServer[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  const start = () => startRestServer(REST, database.url, { TOKEN_SIGNATURE: "EdDSA" });
  servers = await Promise.all([start(), start()]);
}, 120_000);
afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()));
  await database?.drop();
});

function run(arguments_: readonly string[], environment: Record<string, string> = {}) {
  const { status, stdout, stderr } = spawnSync(process.execPath, arguments_, {
    cwd: ROOT,
    encoding: "utf8",
    env: { ...process.env, ...TEST_SECRETS, DATABASE_URL: database.url, ...environment },
  });
  return { status, stdout, stderr };
}
const rotate = (...operands: string[]) => run(["dist/server/rotate-token-key.js", ...operands]);

const kids = () =>
  Promise.all(
    servers.map(async ({ url }) => {
      const { keys } = (await (await fetch(`${url}/.well-known/jwks.json`)).json()) as { keys: { kid: string }[] };
      return keys.map(({ kid }) => kid);
    }),
  );

it("makes one key for all processes, rotates it, waits for the next one and withdraws all of them", async () => {
  const [[first] = [], other] = await kids();
  expect(other).toEqual([first]);
  const rotated = rotate("--lead", "1h");
  expect(rotated.stderr).toBe("");
  expect(rotated).toMatchObject({ status: 0 });
  const [, second] =
    new RegExp(`^Key (${KID}) is published and signs from ${ISO}; ${first} stays published until ${ISO}\\.\n$`).exec(
      rotated.stdout,
    ) ?? [];
  expect(second, rotated.stdout).toBeDefined();
  await vi.waitFor(
    async () =>
      expect(await kids()).toEqual([
        [first, second],
        [first, second],
      ]),
    { timeout: 20_000 },
  );
  const again = rotate();
  expect(again.status).toBe(1);
  expect(again.stdout).toMatch(new RegExp(`^Key ${second} signs from ${ISO}: wait until then, or use --revoke\\.\n$`));

  // As in the npm package, where the command has its own options.
  const revoked = run(["--import", "tsx", "src/entries/faregate-server.ts", "rotate-token-key", "--revoke"]);
  expect(revoked.status, revoked.stderr).toBe(0);
  const [, third] =
    new RegExp(`^Key (${KID}) signs now; 2 keys are withdrawn, and every token that they signed\\.\n$`).exec(
      revoked.stdout,
    ) ?? [];
  expect(third, revoked.stdout).toBeDefined();
  await vi.waitFor(async () => expect(await kids()).toEqual([[third], [third]]), { timeout: 20_000 });
}, 120_000);

it.each([
  [["--lead", "8d"], '--lead must be a number and a unit from 1s to 7d, such as 10m, not "8d".'],
  [["--lead", "0s"], '--lead must be a number and a unit from 1s to 7d, such as 10m, not "0s".'],
  [["--lead", "1m", "--revoke"], "--lead cannot be combined with --revoke."],
])("refuses %j and changes nothing", async (operands, sentence) => {
  const before = await kids();
  expect(rotate(...operands)).toEqual({ status: 2, stdout: "", stderr: `${sentence}\n` });
  expect(await kids()).toEqual(before);
});

it("with TOKEN_SIGNATURE=EdDSA a process does not start that cannot read the key", () => {
  const { status, stderr, stdout } = run(["dist/server/node.js"], {
    TOKEN_SIGNATURE: "EdDSA",
    API_KEYS_SECRET: "quite another secret, 0123456789 abcdef",
    PORT: "39417",
  });
  expect(status).toBe(1);
  expect(`${stdout}${stderr}`).toContain("The token key cannot be read with API_KEYS_SECRET");
}, 120_000);
