import { addressBlock } from "../../core/access/address-block.ts";
import type { Context } from "../context.ts";
import { Failure } from "../errors.ts";
import type { Keyring } from "../credentials.ts";
import { throttleGuesses } from "./throttle.ts";

/*
 * Tokens of links for people. A token is the HMAC of its row's id, so every attempt to send a mail composes the same link
 * and no row contains one. Rows hold the token's SHA-256.
 */

export type LinkKind = "invitation" | "recovery";

const encoder = new TextEncoder();
const hex = (bytes: ArrayBuffer) =>
  Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Derives the token of a link: 256 bits in hex. */
export async function linkToken(keyring: Pick<Keyring, "lookup">, kind: LinkKind, id: string): Promise<string> {
  return hex(await crypto.subtle.sign("HMAC", keyring.lookup, encoder.encode(`${kind} ${id}`)));
}

/** Returns the stored hash of a token. */
export async function hashLinkToken(token: string): Promise<string> {
  return hex(await crypto.subtle.digest("SHA-256", encoder.encode(token)));
}

/**
 * Finds the row of a link's token, and counts an unknown token as a failed sign-in of the address.
 * @throws Failure notFound; tooManyRequests after too many unknown tokens.
 */
export async function findByToken<Row>(
  ctx: Context,
  input: { token: string; kind: LinkKind; address: string },
  find: (hash: string) => Promise<Row | undefined>,
): Promise<Row> {
  const { token, kind, address } = input;
  const row = await throttleGuesses(ctx, { kind, address: addressBlock(address) }, async () =>
    /^[0-9a-f]{64}$/.test(token) ? find(await hashLinkToken(token)) : undefined,
  );
  if (row === undefined) throw new Failure("notFound", `NOT FOUND: This ${kind} link is not valid any more`);
  return row;
}
