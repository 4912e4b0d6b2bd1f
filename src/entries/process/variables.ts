import { z } from "zod";
import { parseDatabaseUrl } from "../../db/postgres/address.ts";

/* How the text of an environment variable is read, by its kind. Each problem is a sentence that names the variable. */

export const port = (name: string, otherwise: number) =>
  z
    .string()
    .optional()
    .transform((text, ctx) => {
      const value = text === undefined ? otherwise : Number(text);
      if (Number.isInteger(value) && value >= 1 && value <= 65_535) return value;
      ctx.addIssue(`${name} must be a port number from 1 to 65535, not "${text}".`);
      return z.NEVER;
    });

/** An integer in a range. */
export const number = (name: string, otherwise: number, most: number, least = 0) =>
  z
    .string()
    .optional()
    .transform((text, ctx) => {
      const value = text === undefined ? otherwise : Number(text);
      if (Number.isInteger(value) && value >= least && value <= most) return value;
      ctx.addIssue(`${name} must be a whole number from ${least} to ${most}, not "${text}".`);
      return z.NEVER;
    });

export const days = (name: string, otherwise: number) =>
  z
    .string()
    .optional()
    .transform((text, ctx) => {
      const value = text === undefined ? otherwise : Number(text);
      if (Number.isInteger(value) && value >= 1 && value <= 3650) return value;
      ctx.addIssue(`${name} must be a whole number of days from 1 to 3650, not "${text}".`);
      return z.NEVER;
    });

export const flag = (name: string, otherwise: boolean) =>
  z
    .string()
    .optional()
    .transform((text, ctx) => {
      if (text === undefined) return otherwise;
      if (/^(true|1|yes|on)$/i.test(text)) return true;
      if (/^(false|0|no|off)$/i.test(text)) return false;
      ctx.addIssue(`${name} must be true or false, not "${text}".`);
      return z.NEVER;
    });

export const list = z
  .string()
  .default("")
  .transform((text) =>
    text
      .split(";")
      .map((entry) => entry.trim())
      .filter((entry) => entry !== ""),
  );

export const oneOf = <T extends string>(name: string, values: readonly T[]) =>
  z
    .string()
    .optional()
    .transform((text, ctx) => {
      const value = values.find((known) => known === text);
      if (value === undefined && text !== undefined) {
        ctx.addIssue(`${name} must be one of ${values.join(", ")}, not "${text}".`);
      }
      return value;
    });

const protocolOf = (text: string) => (URL.canParse(text) ? new URL(text).protocol : undefined);

export const address = (
  name: string,
  protocols: readonly string[],
  read: (text: string) => string | undefined = protocolOf,
) =>
  z
    .string()
    .optional()
    .transform((text, ctx) => {
      if (text === undefined || protocols.includes(read(text) ?? "")) return text;
      // Does not repeat the text: a database URL contains its password.
      ctx.addIssue(`${name} must be an address that begins with ${protocols.map((p) => `${p}//`).join(" or ")}.`);
      return z.NEVER;
    });

/** A URL of Postgres, which may name several hosts. */
export const databaseAddress = (name: string) =>
  address(name, ["postgres:", "postgresql:"], (text) => parseDatabaseUrl(text)?.protocol);

const UNIT_SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Parses a duration such as 90s, 15m, 1h or 2d. Returns seconds; undefined for other text. */
export function secondsIn(text: string): number | undefined {
  const [, digits, unit] = /^([1-9]\d{0,8})([smhd])$/.exec(text.trim()) ?? [];
  const seconds = Number(digits) * (UNIT_SECONDS[unit ?? ""] ?? Number.NaN);
  return Number.isFinite(seconds) ? seconds : undefined;
}

/** A duration, in seconds. */
export const duration = (name: string, otherwise: string, least = 1, most = Number.MAX_SAFE_INTEGER) =>
  z
    .string()
    .default(otherwise)
    .transform((text, ctx) => {
      const seconds = secondsIn(text);
      if (seconds !== undefined && seconds >= least && seconds <= most) return seconds;
      const bounds = least === 1 ? "" : `, from ${least} s to ${most} s`;
      ctx.addIssue(`${name} must be a number and a unit such as 90s, 15m, 1h or 2d${bounds}, not "${text}".`);
      return z.NEVER;
    });

export const subPath = z
  .string()
  .default("")
  .transform((text, ctx) => {
    const path = text.replace(/\/+$/, "");
    if (path === "" || /^(\/[A-Za-z0-9._~-]+)+$/.test(path)) return path;
    ctx.addIssue(`BASE_URL_PATH must be a path such as /space, not "${text}".`);
    return z.NEVER;
  });

const signOnRoles = z.array(
  z.union([
    z.strictObject({ claim: z.string().min(1), has: z.string().min(1), platform: z.literal("ADMIN") }),
    z.strictObject({
      claim: z.string().min(1),
      has: z.string().min(1),
      organization: z.string().min(1),
      role: z.enum(["ADMIN", "MANAGER", "EVALUATOR"]),
    }),
  ]),
);

/** Rules by which roles follow the provider's claims, as JSON. */
export const roleRules = z
  .string()
  .default("[]")
  .transform((text, ctx) => {
    try {
      return signOnRoles.parse(JSON.parse(text));
    } catch {
      ctx.addIssue(
        'OIDC_ROLES must be a JSON list of {"claim", "has", "platform": "ADMIN"} and {"claim", "has", "organization", "role"}, where role is ADMIN, MANAGER or EVALUATOR.',
      );
      return z.NEVER;
    }
  });
