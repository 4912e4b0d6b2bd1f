import { hash } from "bcryptjs";
import { eq } from "drizzle-orm";
import { afterAll, beforeAll, expect, it } from "vitest";
import { users } from "../../src/db/schema.ts";
import { allowHashes, hashesWaiting, inTurn } from "../../src/operations/state/hashing-queue.ts";
import { createTestApi, type TestApi } from "../support/api.ts";

/* Signing in replaces a hash of an outdated scheme. That is a second turn in the queue of password hashing. */

const PLACES = 20;
let api: TestApi;
beforeAll(async () => {
  api = await createTestApi({ settings: { maxWaitingHashes: PLACES } });
  allowHashes(1);
});
afterAll(async () => {
  allowHashes(2);
  await api.close();
});

/** A user whose password was imported with a bcrypt hash. */
async function importedUser(): Promise<{
  id: string;
  stored: () => Promise<string | undefined>;
  signIn: () => ReturnType<TestApi["call"]>;
}> {
  const { id, username } = await api.newUser();
  const { db } = api.resources;
  await db
    .update(users)
    .set({ passwordHash: await hash("imported", 4) })
    .where(eq(users.id, id));
  const body = { username, password: "imported" };
  return {
    id,
    stored: async () => (await db.select().from(users).where(eq(users.id, id)))[0]?.passwordHash,
    signIn: () => api.call("POST", "/users/authenticate", { body }),
  };
}

/** Takes a turn until `end` is called. */
function occupy(key: string): { end: () => void; over: Promise<void> } {
  let end = () => {};
  const work = new Promise<void>((resolve) => (end = resolve));
  return { end, over: inTurn(() => work, { key, kind: "anonymous" }) };
}

it("upgrades an imported hash when there is room", async () => {
  const user = await importedUser();
  expect(await user.signIn()).toMatchObject({ status: 200 });
  expect(await user.stored()).toMatch(/^pbkdf2x\$/);
  expect(await user.signIn()).toMatchObject({ status: 200 });
});

it("a queue that has filled up meanwhile postpones the upgrade and does not fail the sign-in", async () => {
  const user = await importedUser();
  const before = occupy("before");
  const answered = user.signIn();
  while (hashesWaiting() < 2) await new Promise((resolve) => setImmediate(resolve));
  const others = Array.from({ length: PLACES + 1 }, (_, i) => occupy(`other ${i}`));
  before.end();
  // Once the password is checked, one of the others runs and the rest take every place of the queue.
  const answer = await answered;
  for (const { end } of others) end();
  await Promise.all([before, ...others].map(({ over }) => over));
  expect(answer).toMatchObject({ status: 200, body: { role: "USER" } });
  expect(await user.stored()).toMatch(/^\$2[aby]\$04\$/);
  expect(await user.signIn()).toMatchObject({ status: 200 });
  expect(await user.stored()).toMatch(/^pbkdf2x\$/);
});
