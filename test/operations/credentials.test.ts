import { beforeAll, describe, expect, test } from "vitest";
import {
  createKeyring,
  deriveTokenKey,
  hashApiKey,
  hashPassword,
  issueApiKey,
  type Keyring,
  openApiKey,
  verifyPassword,
} from "../../src/operations/credentials.ts";
import { processorMs } from "../support/processor-time.ts";

const SECRETS = { apiKeysSecret: "s".repeat(32), jwtSecret: "j".repeat(32), jwtSalt: "salt" };

let keyring: Keyring;
beforeAll(async () => {
  keyring = await createKeyring(SECRETS);
});

describe("API keys", () => {
  test.each(["usr", "org"] as const)(
    "a %s key has its prefix and 64 hex digits, and no two are alike",
    async (prefix) => {
      const issued = await Promise.all(Array.from({ length: 50 }, () => issueApiKey(keyring, prefix)));
      for (const { apiKey } of issued) expect(apiKey).toMatch(new RegExp(`^${prefix}_[0-9a-f]{64}$`));
      expect(new Set(issued.map(({ apiKey }) => apiKey)).size).toBe(50);
    },
  );

  test("what is stored holds nothing of the key, finds it again and opens to it", async () => {
    const { apiKey, hash, sealed } = await issueApiKey(keyring, "org");
    expect(hash + sealed).not.toContain(apiKey.slice(4, 12));
    expect(hash).toMatch(/^[0-9a-f]{64}$/);
    expect(await hashApiKey(keyring, apiKey)).toBe(hash);
    expect(await openApiKey(keyring, sealed)).toBe(apiKey);
  });

  test("another secret neither finds nor opens them, so a stolen dump authenticates nobody (C1)", async () => {
    const other = await createKeyring({ ...SECRETS, apiKeysSecret: "t".repeat(32) });
    const { apiKey, hash, sealed } = await issueApiKey(keyring, "usr");
    expect(await hashApiKey(other, apiKey)).not.toBe(hash);
    await expect(openApiKey(other, sealed)).rejects.toThrow(DOMException);
  });

  test("a sealed key that was tampered with, or is of another form, does not open", async () => {
    const { sealed } = await issueApiKey(keyring, "usr");
    const [scheme, iv, cipher = ""] = sealed.split("$");
    const flipped = (cipher.startsWith("A") ? "B" : "A") + cipher.slice(1);
    await expect(openApiKey(keyring, [scheme, iv, flipped].join("$"))).rejects.toThrow(DOMException);
    await expect(openApiKey(keyring, `v2$${iv}$${cipher}`)).rejects.toThrow("unknown form");
  });

  test("the same secrets give the same keyring in every process", async () => {
    const again = await createKeyring(SECRETS);
    const { apiKey, hash, sealed } = await issueApiKey(keyring, "usr");
    expect(await hashApiKey(again, apiKey)).toBe(hash);
    expect(await openApiKey(again, sealed)).toBe(apiKey);
  });
});

test("the key of pricing tokens matches the vector of the contract (features-events §7)", async () => {
  const bytes = await deriveTokenKey("example-secret", "example-salt");
  expect(Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")).toBe(
    "5dbfe9e28c7a3578b8f5f39692f974a140423e6c067ed5340c5be052c0dd1eb5",
  );
});

describe("passwords", () => {
  test("a hash describes itself, is salted, and verifies its password only", async () => {
    const [first, second] = await Promise.all([hashPassword("pass1"), hashPassword("pass1")]);
    expect(first).toMatch(/^pbkdf2x\$6\$100000\$[\w+/=]+\$[\w+/=]+$/);
    expect(first).not.toBe(second);
    expect(await verifyPassword("pass1", first)).toBe(true);
    expect(await verifyPassword("pass2", first)).toBe(false);
    expect(await verifyPassword("", first)).toBe(false);
  });

  test("passwords that differ after the 72nd byte, or in a letter beyond ASCII, are different", async () => {
    const long = await hashPassword(`${"x".repeat(72)}1`);
    expect(await verifyPassword(`${"x".repeat(72)}2`, long)).toBe(false);
    const accented = await hashPassword("contraseña");
    expect(await verifyPassword("contrasena", accented)).toBe(false);
    expect(await verifyPassword("contraseña", accented)).toBe(true);
  });

  const known = hashPassword("password");
  test.each([undefined, "", "none", "plain$text"])(
    "whoever has the stored form %j is refused, and it takes as long",
    async (stored) => {
      const time = (hash: string | undefined) =>
        processorMs(async () => expect(await verifyPassword("wrong", hash)).toBe(false));
      expect(await time(stored)).toBeGreaterThan((await time(await known)) / 3);
    },
  );
});
