import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { isLoopback } from "../../../src/operations/state/sign-on-provider.ts";

const SOURCE = resolve(import.meta.dirname, "../../../src");

test("no server holds the client of a provider before somebody signs in with one", () => {
  const importing = readdirSync(SOURCE, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name))
    .flatMap((name) =>
      readFileSync(join(SOURCE, name), "utf8")
        .split("\n")
        .filter((line) => line.includes('"openid-client"'))
        .map((line) => line.trim()),
    );
  expect(importing.length).toBeGreaterThan(1);
  for (const line of importing) expect(line).toMatch(/^import type |import\("openid-client"\)/);
});

test.each([
  ["http://localhost:8080", true],
  ["http://127.0.0.1", true],
  ["http://[::1]:80", true],
  ["http://idp.localhost", true],
  ["http://localhost.evil.example", false],
  ["http://127.0.0.1.evil.example", false],
  ["http://10.0.0.1", false],
])("%s is on this machine: %s", (issuer, expected) => {
  expect(isLoopback(new URL(issuer))).toBe(expected);
});
