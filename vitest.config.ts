import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "pure",
          sequence: { groupOrder: 0 },
          include: ["test/**/*.test.ts"],
          exclude: ["test/**/*.pg.test.ts", "test/**/*.e2e.test.ts", "test/**/*.browser.test.ts"],
        },
      },
      {
        test: {
          name: "postgres",
          sequence: { groupOrder: 1 },
          include: ["test/**/*.pg.test.ts", "test/**/*.e2e.test.ts"],
          globalSetup: ["test/support/postgres-server.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
        },
      },
      {
        test: {
          name: "browser",
          sequence: { groupOrder: 2 },
          include: ["test/**/*.browser.test.ts"],
          globalSetup: ["test/support/postgres-server.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          maxWorkers: 2,
        },
      },
    ],
  },
});
