import { resolve } from "node:path";
import { defineConfig } from "vitest/config";

/** Bounds how long `expect.poll` waits: long enough for a busy machine. */
const POLLING = { poll: { timeout: 15_000 } };

export default defineConfig({
  root: resolve(import.meta.dirname, ".."),
  test: {
    projects: [
      {
        test: {
          name: "pure",
          expect: POLLING,
          // Files share the modules of their worker, which saves a quarter of the time.
          isolate: false,
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
          ],
          testTimeout: 30_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "react-18",
          expect: POLLING,
          sequence: { groupOrder: 0 },
          include: ["test/react/**/*.test.tsx"],
          environment: "jsdom",
          testTimeout: 30_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "react-19",
          expect: POLLING,
          sequence: { groupOrder: 0 },
          include: ["test/react/**/*.test.tsx"],
          environment: "jsdom",
          testTimeout: 30_000,
          maxWorkers: 2,
          setupFiles: ["test/react/resolve-react-19.ts"],
          alias: [{ find: /^(?<name>react|react-dom)(?=$|\/)/, replacement: "$<name>19" }],
        },
      },
      {
        test: {
          name: "postgres",
          expect: POLLING,
          // Files share the modules of their worker, which saves a quarter of the time.
          isolate: false,
          sequence: { groupOrder: 1 },
          include: ["test/**/*.pg.test.ts"],
          globalSetup: ["test/support/postgres-setup.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "e2e",
          expect: POLLING,
          sequence: { groupOrder: 2 },
          include: ["test/**/*.e2e.test.ts"],
          globalSetup: ["test/support/postgres-setup.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "slow",
          expect: POLLING,
          // openapi-typescript needs the programming interface of TypeScript 5, which TypeScript 7 does not have.
          alias: { typescript: "typescript5" },
          server: { deps: { inline: ["openapi-typescript"] } },
          sequence: { groupOrder: 3 },
          include: ["test/**/*.slow.test.ts"],
          globalSetup: ["test/support/postgres-setup.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "runtimes",
          expect: POLLING,
          sequence: { groupOrder: 4 },
          include: ["test/**/*.runtime.test.ts"],
          globalSetup: ["test/support/postgres-setup.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "packages",
          expect: POLLING,
          sequence: { groupOrder: 7 },
          include: ["test/**/*.package.test.ts"],
          globalSetup: ["test/packages/tarballs.ts"],
          testTimeout: 60_000,
          hookTimeout: 240_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "browser",
          expect: POLLING,
          sequence: { groupOrder: 5 },
          include: ["test/**/*.browser.test.ts"],
          globalSetup: ["test/support/postgres-setup.ts", "test/admin/build-console.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "screenshots",
          expect: POLLING,
          include: ["test/admin/screenshots.ts"],
          globalSetup: ["test/support/postgres-setup.ts", "test/admin/build-console.ts"],
          hookTimeout: 60_000,
        },
      },
      {
        test: {
          name: "faults",
          expect: POLLING,
          sequence: { groupOrder: 6 },
          include: ["test/**/*.fault.test.ts"],
          globalSetup: ["test/support/postgres-setup.ts"],
          testTimeout: 240_000,
          hookTimeout: 60_000,
          maxWorkers: 1,
        },
      },
    ],
  },
});
