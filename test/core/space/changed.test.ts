import { describe, expect, it } from "vitest";
import {
  type Document,
  objectId,
  organizationId,
  smallInstallation,
  spaceContract,
  TASKER,
} from "../../support/space-dump.ts";
import { NOW, plan, rowsOf, shown } from "./plan.ts";

/* Every code of `changed` in files-and-migration §5, but seeded-admin-removed, which depends on the database. */

const changedOf = async (...given: Parameters<typeof plan>) => {
  const planned = await plan(...given);
  const changed = planned.report.changed.map(shown).filter((line) => !line.startsWith("text-written"));
  return { planned, changed, left: planned.report.left.map(shown) };
};

const patched = (list: Document[], index: number, changes: Document) => Object.assign(list[index] ?? {}, changes);

describe("accounts", () => {
  it("owner-missing gives an organization to the first ADMIN", async () => {
    const space = smallInstallation();
    patched(space.organizations, 0, { owner: "gone", default: false });
    const { planned, changed } = await changedOf(space);
    expect(changed).toEqual(["owner-missing organization Tasker Inc.: There is no user gone: given to ada"]);
    expect(rowsOf(planned, "organizations")[0]?.ownerId).toBe(objectId("ada").toHexString());
  });

  it("owner-missing without an ADMIN leaves the owner to the target", async () => {
    const space = smallInstallation();
    space.users.splice(0, 1);
    const { planned, changed } = await changedOf(space);
    expect(changed).toEqual([
      "owner-missing organization Tasker Inc.: There is no user ada: given to the first ADMIN",
      "second-default organization Tasker Inc.: Its owner has another default organization",
    ]);
    expect(rowsOf(planned, "organizations")[0]).toMatchObject({ ownerId: null, isDefault: false });
    expect(planned.batches[0]).toMatchObject({ kind: "users", hasAdmin: false });
  });

  it("role-unknown makes a USER, and of a member an EVALUATOR", async () => {
    const space = smallInstallation();
    patched(space.users, 1, { role: "ROOT" });
    patched(space.organizations, 0, { members: [{ username: "bob", role: "GUEST" }] });
    const { planned, changed } = await changedOf(space);
    expect(changed).toEqual([
      "role-unknown user bob: ROOT becomes USER",
      "role-unknown member bob in Tasker Inc.: GUEST becomes EVALUATOR",
    ]);
    expect(rowsOf(planned, "users")[1]?.role).toBe("USER");
    expect(rowsOf(planned, "organizations")[0]?.members).toMatchObject([{ role: "EVALUATOR" }]);
  });

  it("second-default keeps the first default organization of an owner", async () => {
    const space = smallInstallation();
    space.organizations.push({ _id: objectId("second"), name: "Second", owner: "ada", default: true });
    const { planned, changed } = await changedOf(space);
    expect(changed).toEqual(["second-default organization Second: Its owner has another default organization"]);
    expect(rowsOf(planned, "organizations").map(({ isDefault }) => isDefault)).toEqual([true, false]);
  });

  it.each([
    ["no hash", "clear text"],
    ["a cost above 14", `$2b$15$${"a".repeat(53)}`],
    ["no password", undefined],
  ])("password-unusable: %s", async (_, password) => {
    const space = smallInstallation();
    patched(space.users, 1, { password });
    const { planned, changed } = await changedOf(space);
    expect(changed).toEqual([
      "password-unusable user bob: Not a bcrypt hash, or its cost is above 14: needs a new password",
    ]);
    expect(rowsOf(planned, "users")[1]?.password).toBeNull();
  });
});

describe("texts", () => {
  it("text-written has the name at creation where a rename made one that no text may have", async () => {
    const space = smallInstallation();
    patched(space.services, 0, { name: "HR" });
    const { planned, changed, left } = await changedOf({ ...space, contracts: [] });
    expect({ changed, left }).toEqual({ changed: [], left: [] });
    expect(rowsOf(planned, "services")).toMatchObject([
      { name: "HR", versions: [{ pricing: { saasName: "Tasker" } }, {}] },
    ]);
  });

  const file = (path: string) => {
    const version = /-(\d\.\d\.\d)\.yaml$/.exec(path)?.[1];
    return version === "1.0.0" || version === "2.0.0" ? TASKER[version] : undefined;
  };

  it("takes the text of --statics that says the same", async () => {
    const { planned } = await changedOf(smallInstallation(), { file });
    expect(planned.report.changed).toEqual([]);
    const [service] = rowsOf(planned, "services");
    expect(service?.versions.map(({ version, source }) => [version, source])).toEqual(Object.entries(TASKER));
  });

  it("text-written names what SPACE has not stored", async () => {
    const { report } = await plan(smallInstallation());
    expect(report.changed.map(({ code, detail }) => `${code}: ${detail}`)).toEqual(
      ["2.0.0", "1.0.0"].map(
        () =>
          "text-written: Its text is rewritten: SPACE has not stored its units, billing, variables, custom fields, tags without features and comments",
      ),
    );
  });

  it.each([
    [
      "another limit",
      TASKER["2.0.0"].replace("defaultValue: 10,", "defaultValue: 11,"),
      "the file differs in usageLimits.maxTasks.defaultValue",
    ],
    ["another version", TASKER["1.0.0"], "the file is version 1.0.0"],
    ["no pricing", "nothing", "the file cannot be read (The syntaxVersion field"],
  ])("text-differs takes the object: %s", async (_, text, why) => {
    const { planned, changed } = await changedOf(smallInstallation(), {
      file: (path) => (path.endsWith("2.0.0.yaml") ? text : file(path)),
    });
    expect(changed).toEqual([
      expect.stringContaining(`text-differs version Tasker 2_0_0: Its text is rewritten, because ${why}`),
    ]);
    const limits = rowsOf(planned, "services")[0]?.versions[1]?.pricing.usageLimits;
    expect(limits?.[0]).toMatchObject({ name: "maxTasks", defaultValue: 10 });
  });

  it("address-taken puts the second version with a path elsewhere", async () => {
    const space = smallInstallation();
    patched(space.pricings, 0, { yamlPath: "/static/pricings/one.yaml" });
    patched(space.pricings, 1, { yamlPath: "static/pricings/one.yaml" });
    const { planned, changed } = await changedOf(space);
    const id = objectId("Tasker 1.0.0", 10).toHexString();
    expect(changed).toEqual([
      `address-taken version Tasker 1_0_0: /static/pricings/one.yaml belongs to another version: it is at /static/pricings/one-${id}.yaml`,
    ]);
    expect(rowsOf(planned, "services")[0]?.versions.map(({ yamlPath }) => yamlPath)).toEqual([
      `/static/pricings/one-${id}.yaml`,
      "/static/pricings/one.yaml",
    ]);
  });

  it("keeps a version's underscores where a text has them, and the moment of a clash", async () => {
    const space = smallInstallation();
    const text = TASKER["2.0.0"].replace('"2.0.0"', '"2_0.0"');
    patched(space.services, 0, {
      activePricings: { "2_0_0": { id: objectId("Tasker 2.0.0", 20) } },
      archivedPricings: { "1_0_0_1700000000000": { id: objectId("Tasker 1.0.0", 10) } },
    });
    const { planned } = await changedOf(space, { file: (path) => (path.endsWith("2.0.0.yaml") ? text : file(path)) });
    expect(planned.report.changed).toEqual([]);
    expect(rowsOf(planned, "services")[0]?.versions.map(({ version }) => version)).toEqual([
      "1.0.0.1700000000000",
      "2_0.0",
    ]);
  });
});

describe("contracts", () => {
  const oneContract = (changes: Document) => ({
    ...smallInstallation(),
    contracts: [spaceContract("u", changes)],
  });
  const levels = (tasker: Document) => oneContract({ usageLevels: { tasker } });
  const calls = { consumed: 1, resetTimeStamp: new Date("2024-06-30T08:00:00.000Z") };
  const maxTasks = { consumed: 1 };

  it("level-created starts a tracked limit at 0, for one period from now", async () => {
    const { planned, changed } = await changedOf(levels({ maxTasks }));
    expect(changed).toEqual(["level-created level calls of tasker for u: SPACE has no level: it starts at 0"]);
    expect(rowsOf(planned, "contracts")[0]?.levels[1]).toMatchObject({
      consumed: 0,
      anchor: NOW,
      resetAt: new Date("2025-07-15T10:00:00.000Z"),
    });
  });

  it.each([-1, Infinity, Number.NaN, "many", undefined])("level-invalid makes %s to 0", async (consumed) => {
    const { planned, changed } = await changedOf(levels({ maxTasks: { consumed }, calls }));
    expect(changed).toEqual([`level-invalid level maxTasks of tasker for u: ${consumed} becomes 0`]);
    expect(rowsOf(planned, "contracts")[0]?.levels[0]?.consumed).toBe(0);
  });

  it("reset-set and reset-dropped follow the pricing", async () => {
    const { planned, changed } = await changedOf(
      levels({ maxTasks: { ...calls, consumed: 3 }, calls: { consumed: 4 } }),
    );
    expect(changed).toEqual([
      "reset-dropped level maxTasks of tasker for u: The limit never resets",
      "reset-set level calls of tasker for u: It has no reset: it resets at 2025-07-15T10:00:00.000Z",
    ]);
    expect(rowsOf(planned, "contracts")[0]?.levels).toMatchObject([
      { consumed: 3, anchor: null, resetAt: null },
      { consumed: 4, anchor: NOW, resetAt: new Date("2025-07-15T10:00:00.000Z") },
    ]);
  });

  it("keeps the reset of a level as the anchor of its calendar", async () => {
    const { planned } = await changedOf(levels({ maxTasks, calls }));
    const at = calls.resetTimeStamp;
    expect(rowsOf(planned, "contracts")[0]?.levels[1]).toMatchObject({ anchor: at, resetAt: at });
  });

  it.each([
    [{ renewalDays: 0 }, "renewalDays 0 becomes 30"],
    [{ renewalDays: "30" }, "renewalDays 30 becomes 30"],
    [{ endDate: new Date("2024-04-01T00:00:00.000Z") }, "endDate becomes 2024-05-01T08:00:00.000Z"],
    [{ endDate: undefined }, "endDate becomes 2024-05-01T08:00:00.000Z"],
    [{ startDate: null }, "startDate becomes 2024-05-31T08:00:00.000Z"],
  ])("billing-repaired: %j", async (changes, detail) => {
    const base = spaceContract("u")["billingPeriod"] as Document;
    const { planned, changed } = await changedOf(oneContract({ billingPeriod: { ...base, ...changes } }));
    expect(changed).toEqual([`billing-repaired contract u: ${detail}`]);
    const billing = rowsOf(planned, "contracts")[0]?.billing;
    expect(billing?.renewalDays).toBe(30);
    expect(billing?.endDate.getTime()).toBeGreaterThanOrEqual(billing?.startDate.getTime() ?? Infinity);
  });

  it.each([
    [{ subscriptionPlans: { tasker: "GOLD" } }, "planUnknown"],
    [{ subscriptionPlans: {}, subscriptionAddOns: {} }, "planOrAddOnsRequired"],
    [{ subscriptionPlans: { tasker: "FREE" } }, "addOnUnavailable"],
    [{ subscriptionAddOns: { tasker: { extraTasks: 1, support: 1 } } }, "addOnExclusion"],
    [{ subscriptionAddOns: { tasker: { extraTasks: 0.5 } } }, "addOnQuantity"],
  ])("subscription-invalid keeps %j, and names %s", async (changes, rule) => {
    const { planned, changed } = await changedOf(oneContract(changes));
    expect(changed).toEqual([expect.stringContaining(`subscription-invalid contract u: ${rule}: `)]);
    const document: Document = spaceContract("u", changes);
    const [service] = rowsOf(planned, "contracts")[0]?.services ?? [];
    const plans = document["subscriptionPlans"] as Record<string, string>;
    expect(service?.plan).toBe(plans["tasker"] ?? null);
  });

  it("keeps the plan's spelling and takes the add-ons' from the pricing", async () => {
    const { planned, changed } = await changedOf(oneContract({}));
    expect(changed).toEqual([]);
    expect(rowsOf(planned, "contracts")[0]?.services).toMatchObject([{ plan: "pro", addOns: { extraTasks: 2 } }]);
    expect(rowsOf(planned, "contracts")[0]?.organizationId).toBe(organizationId);
  });
});
