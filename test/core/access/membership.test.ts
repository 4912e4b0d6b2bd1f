import { describe, expect, test } from "vitest";
import {
  actorOf,
  chooseHeir,
  denyAddKey,
  denyAddMember,
  denyChangeMembers,
  denyDelete,
  denyKeys,
  denyNewRole,
  denyRead,
  denyRemoveKey,
  denyRemoveMember,
  denyUpdate,
  maskKey,
  seesKey,
  type Actor,
} from "../../../src/core/access/membership.ts";

const ACTORS: readonly Actor[] = ["PLATFORM_ADMIN", "OWNER", "ADMIN", "MANAGER", "EVALUATOR", undefined];
const ROLES = ["ADMIN", "MANAGER", "EVALUATOR"] as const;
const SCOPES = ["ALL", "MANAGEMENT", "EVALUATION"] as const;

/** Contract users-organizations §5.1: which roles an actor may give, take away and remove. */
const MEMBERS: Record<string, { add: string; from: string; to: string; remove: string }> = {
  PLATFORM_ADMIN: { add: "AME", from: "AME", to: "AME", remove: "AME" },
  OWNER: { add: "AME", from: "AME", to: "AME", remove: "AME" },
  ADMIN: { add: "ME", from: "AME", to: "ME", remove: "AME" },
  MANAGER: { add: "ME", from: "ME", to: "ME", remove: "ME" },
  EVALUATOR: { add: "", from: "", to: "", remove: "" },
  undefined: { add: "", from: "", to: "", remove: "" },
};

describe.each(ACTORS)("%s, by the table of members,", (actor) => {
  const may = MEMBERS[String(actor)] ?? { add: "", from: "", to: "", remove: "" };
  const has = (list: string, role: string) => list.includes(role.slice(0, 1));

  test.each(ROLES)("adds a member with role %s or is refused", (role) => {
    expect(denyAddMember(actor, role) === undefined).toBe(has(may.add, role));
  });
  test.each(ROLES.flatMap((from) => ROLES.map((to) => [from, to] as const)))(
    "takes a member from %s to %s or is refused",
    (from, to) => {
      const refusal = denyChangeMembers(actor) ?? denyNewRole(actor, from, to);
      expect(refusal === undefined).toBe(has(may.from, from) && has(may.to, to));
    },
  );
  test.each(ROLES)("removes another member with role %s or is refused", (role) => {
    expect(denyRemoveMember(actor, { isSelf: false, role }) === undefined).toBe(has(may.remove, role));
  });
  test("may leave when it is a member", () => {
    if (actor === undefined || actor === "PLATFORM_ADMIN" || actor === "OWNER") return;
    expect(denyRemoveMember(actor, { isSelf: true, role: actor })).toBeUndefined();
  });
});

test("who may touch which key follows the table of keys", () => {
  for (const actor of ACTORS) {
    for (const scope of SCOPES) {
      const manages = actor !== undefined && actor !== "EVALUATOR";
      const allowed = manages && !(actor === "MANAGER" && scope === "ALL");
      expect((denyKeys(actor) ?? denyAddKey(actor, scope)) === undefined).toBe(allowed);
      expect((denyKeys(actor) ?? denyRemoveKey(actor, scope)) === undefined).toBe(allowed);
    }
  }
});

test("a key is shown to exactly those who could create it", () => {
  for (const actor of ACTORS) {
    for (const scope of SCOPES) {
      expect(seesKey(actor, scope)).toBe((denyKeys(actor) ?? denyAddKey(actor, scope)) === undefined);
    }
  }
});

test("a masked key keeps its first twelve characters and nothing else", () => {
  expect(maskKey(`org_${"0123456789abcdef".repeat(4)}`)).toBe("org_01234567****************");
});

test("reading is for insiders, deleting for the owner, updating for managers", () => {
  expect(ACTORS.map((actor) => denyRead(actor, "o") === undefined)).toEqual([true, true, true, true, true, false]);
  expect(ACTORS.map((actor) => denyDelete(actor, "o") === undefined)).toEqual([true, true, false, false, false, false]);
  const name = ACTORS.map((actor) => denyUpdate(actor, { owner: false, default: false }) === undefined);
  expect(name).toEqual([true, true, true, true, false, false]);
  for (const sent of [
    { owner: true, default: false },
    { owner: false, default: true },
  ]) {
    const allowed = ACTORS.map((actor) => denyUpdate(actor, sent) === undefined);
    expect(allowed).toEqual([true, true, false, false, false, false]);
  }
});

test("a platform ADMIN who is an EVALUATOR in an organization keeps every right", () => {
  const admin = { kind: "user", id: "1", username: "root", role: "ADMIN" } as const;
  expect(actorOf(admin, "EVALUATOR")).toBe("PLATFORM_ADMIN");
  expect(actorOf({ ...admin, role: "USER" }, "EVALUATOR")).toBe("EVALUATOR");
});

test("an organization passes to the first ADMIN, else MANAGER, else EVALUATOR, in order of joining", () => {
  const member = (username: string, role: "ADMIN" | "MANAGER" | "EVALUATOR") => ({ username, role });
  const joined = [
    member("e1", "EVALUATOR"),
    member("m1", "MANAGER"),
    member("a1", "ADMIN"),
    member("m2", "MANAGER"),
    member("a2", "ADMIN"),
  ];
  expect(chooseHeir(joined)?.username).toBe("a1");
  expect(chooseHeir(joined.filter(({ role }) => role !== "ADMIN"))?.username).toBe("m1");
  expect(chooseHeir(joined.slice(0, 1))?.username).toBe("e1");
  expect(chooseHeir([])).toBeUndefined();
});
