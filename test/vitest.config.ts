import { resolve } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { EACH_CONNECTION, EACH_KIND, EACH_VERSION } from "./support/versioned-tests.ts";

/** Starts Postgres, and builds what tests start. */
const GLOBAL_SETUP = ["test/support/postgres-setup.ts", "test/support/build-server.ts"];

/** Bounds how long `expect.poll` waits: long enough for a busy machine. */
const POLLING = { poll: { timeout: 15_000 } };

/**
 * Files share the modules of their worker, which saves a quarter of the time. A larger young generation saves a twentieth: most
 * objects die before it is full.
 */
const SHARED_MODULES = { isolate: false, execArgv: ["--min-semi-space-size=32", "--max-semi-space-size=64"] };

/** Files at once of the tests without a database, on two processors: one or two of them wait. */
const QUICK_WORKERS = 4;

/** Tests over one Postgres of their project. */
const POSTGRES = {
  expect: POLLING,
  ...SHARED_MODULES,
  globalSetup: GLOBAL_SETUP,
  // Four files share two processors.
  testTimeout: 120_000,
  hookTimeout: 120_000,
  // A file computes for three fifths of its time, Postgres included, and waits for the rest. One of four is a file that waits.
  maxWorkers: 4,
};

const VERSIONED = EACH_CONNECTION.map((folder) => `${folder}/**/*.pg.test.ts`);

/** Tests that connect past any pooler: `postgres` runs them on the embedded Postgres, `versions-debian-pooled` on Debian's. */
const ALWAYS_DIRECT = ["address", "migrate", "prepared"].map((name) => `test/db/${name}.pg.test.ts`);

/** Tests that kill, stop and overload processes. */
const FAULTS = {
  expect: POLLING,
  ...SHARED_MODULES,
  globalSetup: GLOBAL_SETUP,
  testTimeout: 240_000,
  hookTimeout: 120_000,
};

/** Faults whose tests compare what others get meanwhile: nothing runs beside them. */
const MEASURED_FAULTS = ["hostile-tenant", "impact-volume", "pooler"].map(
  (name) => `test/faults/${name}.fault.test.ts`,
);

/** Files that take longer than their size tells. Begun last, one of them would keep one processor for a minute. */
const LONG = [
  "types.test.ts",
  "react/connection.test.tsx",
  "entries/workers.e2e.test.ts",
  "entries/guides.e2e.test.ts",
  "local/processes.e2e.test.ts",
  "entries/embedded-socket.e2e.test.ts",
  "entries/driver.e2e.test.ts",
  "entries/doctor.e2e.test.ts",
  "events/mails.e2e.test.ts",
  "entries/slow-clients.e2e.test.ts",
  "entries/import-space.slow.test.ts",
  "cli/files-round-trip.slow.test.ts",
  "crossing/crossing.slow.test.ts",
  "runtimes/conformance.runtime.test.ts",
  // Every second one of these waits.
  "runtimes/worker.runtime.test.ts",
  "client/package.runtime.test.ts",
  "events/limits.runtime.test.ts",
  "runtimes/deno.runtime.test.ts",
  "react/racing-users.browser.test.ts",
  "faults/local-leases.fault.test.ts",
  "security/fuzz.fault.test.ts",
  "faults/analysis.fault.test.ts",
  "faults/database-trouble.fault.test.ts",
  "faults/leases.fault.test.ts",
  "faults/recovery.fault.test.ts",
  "faults/holds.fault.test.ts",
  "cli/apply.fault.test.ts",
  "security/tenants.fault.test.ts",
  "faults/services-volume.fault.test.ts",
  "faults/events-kill.fault.test.ts",
  "faults/batches.fault.test.ts",
  "faults/usage.fault.test.ts",
  "faults/import-space.fault.test.ts",
  "faults/usage-load.fault.test.ts",
].map((file) => `/test/${file}`);

/** Files that wait for most of their time: begun together, they would leave the processors idle. */
const WAITING = [
  "local/evaluator.pg.test.ts",
  "local/leases.pg.test.ts",
  "http/change-stream.pg.test.ts",
  "http/sign-on.pg.test.ts",
  "http/usage-waiting.pg.test.ts",
  "client/back/recorder.pg.test.ts",
  "client/back/transport.test.ts",
  "entries/public-lookup.test.ts",
].map((file) => `/test/${file}`);

/** Index of the first waiting file among the others of its project, and files from one to the next. */
const SPREAD = { first: 0, step: 20 };
/** Those of `pure` are short, and React's two waiting files run beside the first ones. */
const SPREAD_QUICK = { first: 8, step: 4 };

const isOf = (list: readonly string[], { moduleId }: TestSpecification) => list.some((end) => moduleId.endsWith(end));

/** Begins waiting files one at a time, each beside files that compute. */
function spreadWaiting(files: readonly TestSpecification[]): TestSpecification[] {
  const waiting = files.filter((file) => isOf(WAITING, file));
  const others = files.filter((file) => !waiting.includes(file));
  const { first, step } = files[0]?.project.name === "pure" ? SPREAD_QUICK : SPREAD;
  const spread = others.flatMap((file, i) => {
    const isDue = i >= first && (i - first) % step === 0;
    return isDue ? [...waiting.splice(0, 1), file] : file;
  });
  return [...spread, ...waiting];
}

/**
 * A fresh clone, which knows no durations, sorts by size. Files of one project follow each other: a worker that meets another
 * project ends, with the modules that it has loaded.
 */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const long = LONG.flatMap((end) => sorted.filter(({ moduleId }) => moduleId.endsWith(end)));
    const others = sorted.filter((file) => !long.includes(file));
    const projects = [...new Set(others.map(({ project }) => project))];
    return [
      ...long,
      ...projects.flatMap((project) => spreadWaiting(others.filter((file) => file.project === project))),
    ];
  }
}

export default defineConfig({
  root: resolve(import.meta.dirname, ".."),
  test: {
    sequence: { sequencer: LongFirst },
    projects: [
      {
        test: {
          name: "pure",
          expect: POLLING,
          ...SHARED_MODULES,
          sequence: { groupOrder: 0 },
          include: ["test/**/*.test.ts"],
          exclude: [
            "test/**/*.pg.test.ts",
            "test/**/*.e2e.test.ts",
            "test/**/*.runtime.test.ts",
            "test/**/*.browser.test.ts",
            "test/**/*.fault.test.ts",
            "test/**/*.slow.test.ts",
            "test/**/*.package.test.ts",
            "test/**/*.shape.test.ts",
            "test/**/*.citus.test.ts",
          ],
          testTimeout: 60_000,
          hookTimeout: 120_000,
          maxWorkers: QUICK_WORKERS,
        },
      },
      {
        test: {
          name: "react-18",
          expect: POLLING,
          sequence: { groupOrder: 0 },
          include: ["test/react/**/*.test.tsx"],
          environment: "jsdom",
          testTimeout: 60_000,
          hookTimeout: 120_000,
          maxWorkers: QUICK_WORKERS,
        },
      },
      {
        test: {
          name: "react-19",
          expect: POLLING,
          sequence: { groupOrder: 0 },
          include: ["test/react/**/*.test.tsx"],
          environment: "jsdom",
          testTimeout: 60_000,
          hookTimeout: 120_000,
          maxWorkers: QUICK_WORKERS,
          setupFiles: ["test/react/resolve-react-19.ts"],
          alias: [{ find: /^(?<name>react|react-dom)(?=$|\/)/, replacement: "$<name>19" }],
        },
      },
      {
        test: {
          ...POSTGRES,
          name: "postgres",
          sequence: { groupOrder: 1 },
          setupFiles: ["test/support/statement-recorder.ts"],
          include: ["test/**/*.pg.test.ts"],
        },
      },
      // Over the coordinator at CITUS_URL, if there is one: see support/distributed-database.ts.
      ...(process.env["CITUS_URL"] === undefined
        ? []
        : [
            {
              test: {
                ...POSTGRES,
                name: "citus",
                sequence: { groupOrder: 13 },
                include: ["test/{http,events}/**/*.pg.test.ts", "test/**/*.citus.test.ts"],
                // Each file makes a database on each node.
                hookTimeout: 240_000,
                testTimeout: 240_000,
                maxWorkers: 2,
              },
            },
          ]),
      // Reads the statements that `postgres` has recorded.
      {
        test: {
          name: "shape",
          sequence: { groupOrder: 12 },
          include: ["test/**/*.shape.test.ts"],
          testTimeout: 120_000,
          globalSetup: ["test/support/postgres-setup.ts"],
        },
      },
      // The oldest Postgres that we support is Debian's; `postgres` runs everything on the embedded one, directly. One group, so that
      // the end of one project does not leave workers idle.
      {
        test: {
          ...POSTGRES,
          name: "versions-debian-pooled",
          sequence: { groupOrder: 8 },
          include: [...EACH_KIND, ...VERSIONED],
        },
      },
      {
        test: {
          ...POSTGRES,
          name: "versions-debian",
          sequence: { groupOrder: 8 },
          include: VERSIONED,
          exclude: [...ALWAYS_DIRECT, ...EACH_VERSION],
        },
      },
      {
        test: {
          ...POSTGRES,
          name: "versions-embedded-pooled",
          sequence: { groupOrder: 8 },
          // Those of db and events run without a pooler on this version, and through one on the other.
          include: ["test/http/{contracts-*,features*,holds,leases,usage-batches}.pg.test.ts"],
        },
      },
      {
        test: {
          name: "e2e",
          expect: POLLING,
          ...SHARED_MODULES,
          sequence: { groupOrder: 2 },
          include: ["test/**/*.e2e.test.ts"],
          globalSetup: GLOBAL_SETUP,
          testTimeout: 120_000,
          hookTimeout: 120_000,
          // Processes are waited for most of the time.
          maxWorkers: 3,
        },
      },
      {
        test: {
          name: "slow",
          expect: POLLING,
          ...SHARED_MODULES,
          // openapi-typescript needs the programming interface of TypeScript 5, which TypeScript 7 does not have.
          alias: { typescript: "typescript5" },
          server: { deps: { inline: ["openapi-typescript"] } },
          sequence: { groupOrder: 3 },
          include: ["test/**/*.slow.test.ts"],
          globalSetup: GLOBAL_SETUP,
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 3,
        },
      },
      {
        test: {
          name: "runtimes",
          expect: POLLING,
          ...SHARED_MODULES,
          sequence: { groupOrder: 4 },
          include: ["test/**/*.runtime.test.ts"],
          globalSetup: GLOBAL_SETUP,
          testTimeout: 120_000,
          hookTimeout: 120_000,
          // More would delay the file that takes longest.
          maxWorkers: 3,
        },
      },
      {
        test: {
          name: "packages",
          expect: POLLING,
          sequence: { groupOrder: 7 },
          include: ["test/**/*.package.test.ts"],
          globalSetup: ["test/packages/tarballs.ts"],
          testTimeout: 120_000,
          hookTimeout: 240_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "browser",
          expect: POLLING,
          ...SHARED_MODULES,
          sequence: { groupOrder: 5 },
          include: ["test/**/*.browser.test.ts"],
          globalSetup: [...GLOBAL_SETUP, "test/admin/build-console.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "screenshots",
          expect: POLLING,
          include: ["test/admin/screenshots.ts"],
          globalSetup: [...GLOBAL_SETUP, "test/admin/build-console.ts"],
          hookTimeout: 120_000,
        },
      },
      // Files wait for kills and restarts for a quarter of their time: three at once keep two processors busy.
      {
        test: {
          ...FAULTS,
          name: "faults",
          globalSetup: [...GLOBAL_SETUP, "test/support/cluster-setup.ts"],
          sequence: { groupOrder: 6 },
          include: ["test/**/*.fault.test.ts"],
          exclude: MEASURED_FAULTS,
          maxWorkers: 3,
        },
      },
      {
        test: {
          ...FAULTS,
          name: "faults-measured",
          sequence: { groupOrder: 11 },
          include: MEASURED_FAULTS,
          maxWorkers: 1,
        },
      },
    ],
  },
});
