import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  folder,
  freePort,
  healthy,
  launch,
  launchAndWait,
  ports,
  processesOn,
  signIn,
  useLaunchers,
} from "./launcher.ts";

useLaunchers();

describe("npm start without a database", () => {
  it(
    "serves at both addresses, shows the password once, keeps the data, and ends with 0",
    { timeout: 120_000 },
    async () => {
      const first = await launchAndWait();
      const password = /with the password (\S+)/.exec(first.output())?.[1] ?? "";
      expect(first.errors()).toBe("");
      expect(first.output()).toMatch(/^ {2}Warning {7}ALLOWED_ORIGINS is not set: [^\n]+\n$/m);
      expect((await signIn(password)).status).toBe(200);
      expect((await signIn(password, ports.EVENTS_PORT)).status).toBe(200);
      expect(statSync(join(folder, "data", "secrets.json")).mode & 0o777).toBe(0o600);
      const secrets = Object.values(JSON.parse(readFileSync(join(folder, "data", "secrets.json"), "utf8")) as object);
      for (const secret of secrets) expect(first.output()).not.toContain(secret);

      first.process.kill("SIGINT");
      expect(await first.exit).toBe(0);
      await expect.poll(() => processesOn(folder)).toEqual([]);

      const second = await launchAndWait();
      expect(second.output()).not.toContain("with the password");
      expect((await signIn(password)).status).toBe(200);
      second.process.kill("SIGTERM");
      expect(await second.exit).toBe(0);
      expect(second.errors()).toBe("");
      await expect.poll(() => processesOn(folder)).toEqual([]);
    },
  );

  it("a second launcher on the same folder is refused in one sentence", { timeout: 120_000 }, async () => {
    await launchAndWait();
    const second = launch({ PORT: await freePort(), EVENTS_PORT: await freePort() });
    expect(await second.exit).toBe(1);
    expect(second.errors()).toMatch(/^Faregate already runs on the data folder [^\n]+\n$/);
    expect(await healthy(ports.PORT)).toBe(true);
  });
});
