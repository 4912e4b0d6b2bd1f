import { chownSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { folder, launch, useLaunchers } from "./launcher.ts";

useLaunchers();

describe("what keeps it from starting is one sentence and exit 1", () => {
  const refused = async (environment: Record<string, string | undefined>) => {
    const launcher = launch(environment);
    expect(await launcher.exit).toBe(1);
    expect(launcher.errors()).toMatch(/^[^\n]+[.?]\n$/);
    expect(launcher.output()).toBe("");
    return launcher.errors();
  };
  const given = {
    DATABASE_URL: "postgres://ada:sesame@127.0.0.1:1/rates",
    JWT_SECRET: "0f4c1c6a5d1e4b7f8a9b0c3d2e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071",
    JWT_SALT: "salt",
    API_KEYS_SECRET: "1f4c1c6a5d1e4b7f8a9b0c3d2e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6072",
  };

  it.each(["PORT", "EVENTS_PORT"] as const)("%s is in use", async (variable) => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, resolve));
    const { port } = taken.address() as AddressInfo;
    const sentence = await refused({ [variable]: String(port) });
    taken.close();
    expect(sentence).toBe(
      `Port ${port} is already in use: stop what listens there, or set ${variable} to another port.\n`,
    );
    expect(existsSync(join(folder, "data"))).toBe(false);
  });

  it("the database cannot be reached", async () => {
    const sentence = await refused(given);
    expect(sentence).toContain("127.0.0.1:1/rates cannot be reached");
    expect(sentence).not.toContain("sesame");
  });

  it("a database is given without its secrets", async () => {
    expect(await refused({ DATABASE_URL: given.DATABASE_URL })).toContain(
      "JWT_SECRET, JWT_SALT and API_KEYS_SECRET must be set too",
    );
  });

  it("the first ADMIN's name has characters that no user name may have", async () => {
    expect(await refused({ ADMIN_USER: "\u0430dmin" })).toBe(
      'The first ADMIN cannot have the name "\u0430dmin" (The username contains characters that are not allowed): set ADMIN_USER to another one.\n',
    );
  });

  it("secrets.json is missing beside a database, and no new one is written", async () => {
    mkdirSync(join(folder, "data", "postgres"), { recursive: true });
    expect(await refused({})).toMatch(/secrets\.json is missing, but there is a database beside it: put back a copy/);
    expect(existsSync(join(folder, "data", "secrets.json"))).toBe(false);
  });

  it("the data folder is a file", async () => {
    writeFileSync(join(folder, "data"), "");
    expect(await refused({})).toContain("cannot be made (EEXIST)");
  });

  it.runIf(process.getuid?.() === 0)("the data folder belongs to somebody else", async () => {
    mkdirSync(join(folder, "data"));
    chownSync(join(folder, "data"), 65_534, 65_534);
    expect(await refused({})).toContain("belongs to another user (uid 65534)");
  });

  it("the data folder was written by another version of PostgreSQL", async () => {
    mkdirSync(join(folder, "data", "postgres"), { recursive: true });
    writeFileSync(join(folder, "data", "postgres", "PG_VERSION"), "12\n");
    const kept = { jwtSecret: "a", jwtSalt: "b", apiKeysSecret: "c", databasePassword: "d" };
    writeFileSync(join(folder, "data", "secrets.json"), JSON.stringify(kept));
    expect(await refused({})).toContain("was written by PostgreSQL 12, and this is PostgreSQL 18");
  });
});
