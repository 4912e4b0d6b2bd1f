import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";

const read = (name: string) => JSON.parse(readFileSync(resolve(import.meta.dirname, "../..", name), "utf8")) as object;

it("every package is locked to one version and the hash of its content, and comes from a registry", () => {
  const { packages } = read("package-lock.json") as {
    packages: Record<string, { version?: string; integrity?: string; resolved?: string }>;
  };
  const installed = Object.entries(packages).filter(([path]) => path !== "");
  expect(installed.length).toBeGreaterThan(100);
  for (const [path, { version, integrity, resolved = "https:" }] of installed) {
    expect({ path, version, integrity, resolved }).toEqual({
      path,
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      integrity: expect.stringMatching(/^sha512-/),
      resolved: expect.stringMatching(/^https:/),
    });
  }
});

it("what runs in production is asked for by its exact version", () => {
  const { dependencies } = read("package.json") as { dependencies: Record<string, string> };
  for (const [name, version] of Object.entries(dependencies)) {
    expect({ name, version }).toEqual({ name, version: expect.stringMatching(/^\d+\.\d+\.\d+$/) });
  }
});
