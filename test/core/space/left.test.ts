import { describe, expect, it } from "vitest";
import {
  type Document,
  objectId,
  organizationId,
  smallInstallation,
  spaceContract,
  spaceKey,
  storedPricing,
  TASKER,
} from "../../support/space-dump.ts";
import { plan, rowsOf, shown } from "./plan.ts";

/* Every code of `left` in files-and-migration §5. */

const leftOf = async (...given: Parameters<typeof plan>) => {
  const planned = await plan(...given);
  expect(planned.report.complete).toBe(planned.report.left.length === 0);
  return { planned, left: planned.report.left.map(shown) };
};

const patched = (list: Document[], index: number, changes: Document) => Object.assign(list[index] ?? {}, changes);

const LONG = "x".repeat(513);

it("leaves nothing of an installation in order", async () => {
  const { planned, left } = await leftOf(smallInstallation());
  expect(left).toEqual([]);
  expect(planned.report.carried).toEqual({
    users: 2,
    organizations: 1,
    keys: 4,
    members: 1,
    services: 1,
    versions: 2,
    contracts: 2,
    levels: 4,
    history: 2,
    days: 1,
  });
});

describe("document-invalid", () => {
  it.each([
    ["users", { _id: objectId("x"), password: "p" }, "document-invalid user : It has no usable username"],
    ["users", { username: "carl" }, "document-invalid user carl: It has no id of 24 hex digits"],
    ["users", { _id: objectId("ada"), username: "carl" }, "document-invalid user carl: Its id is taken"],
    [
      "users",
      { _id: objectId("x"), username: "a\0b" },
      "document-invalid user a\0b: A text contains a character that cannot be stored",
    ],
    [
      "users",
      { _id: objectId("x"), username: "a\uD800b" },
      "document-invalid user a\uD800b: A text contains a character that cannot be stored",
    ],
    ["organizations", { _id: objectId("x"), owner: "ada" }, "document-invalid organization : It has no name"],
    ["services", { _id: objectId("x"), organizationId }, "document-invalid service : It has no name"],
    [
      "services",
      { _id: objectId("x"), organizationId, name: ".." },
      "document-invalid service ..: Its name is . or .., which no address can carry",
    ],
    [
      "contracts",
      { _id: objectId("x"), organizationId },
      "document-invalid contract : It has no userId or no username",
    ],
    [
      "analyticsdays",
      { _id: objectId("x"), date: "0000-01-01" },
      "document-invalid day 0000-01-01: No day, or no whole counts",
    ],
    [
      "analyticsdays",
      { _id: objectId("x"), date: "2024-02-31" },
      "document-invalid day 2024-02-31: No day, or no whole counts",
    ],
    [
      "analyticsdays",
      { _id: objectId("x"), date: "2024-05-01" },
      "document-invalid day 2024-05-01: The day is there already",
    ],
  ] as const)("%s %j", async (collection, document, line) => {
    const space = smallInstallation();
    space[collection].push(document);
    expect((await leftOf(space)).left).toEqual([line]);
  });

  it.each([
    ["users", "name", { _id: objectId("x"), username: LONG }, "user <long>: It has no usable username"],
    [
      "services",
      "name",
      { _id: objectId("x"), organizationId, name: LONG, disabled: true },
      "service <long>: Its name",
    ],
    ["contracts", "userId", spaceContract(LONG), "contract <long>: Its userId"],
    [
      "contracts",
      "username",
      spaceContract("u", { userContact: { userId: "u", username: LONG } }),
      "contract u: Its username",
    ],
    ["contracts", "groupId", spaceContract("u", { groupId: LONG }), "contract u: Its groupId"],
  ] as const)("%s whose %s no index holds", async (collection, _, document, line) => {
    const space = smallInstallation();
    space[collection].push(document);
    const rest = collection === "users" ? "" : " is longer than 512 characters";
    const left = (await leftOf(space)).left.map((each) => each.replace(LONG, "<long>"));
    expect(left).toEqual([`document-invalid ${line}${rest}`]);
  });

  it("a path that no index holds, which is no address then", async () => {
    const space = smallInstallation();
    patched(space.pricings, 1, { yamlPath: `/static/${LONG}` });
    const { planned, left } = await leftOf(space);
    expect(left).toEqual(["document-invalid pricing Tasker 2_0_0: Its yamlPath is longer than 512 characters"]);
    expect(rowsOf(planned, "services")[0]?.versions[1]).toMatchObject({ version: "2.0.0", yamlPath: null });
  });

  it("a history entry without its dates", async () => {
    const { planned, left } = await leftOf({
      ...smallInstallation(),
      contracts: [spaceContract("u", { history: [{ contractedServices: {} }] })],
    });
    expect(left).toEqual(["document-invalid history history entry 1 of u: It has no start or no end"]);
    expect(planned.report.carried).toMatchObject({ contracts: 1, history: 0 });
  });
});

describe("accounts", () => {
  it("duplicate-name leaves the second user of a name", async () => {
    const space = smallInstallation();
    space.users.push({ _id: objectId("other ada"), username: "ada", role: "USER" });
    expect((await leftOf(space)).left).toEqual(["duplicate-name user ada: Another user has this name"]);
  });

  it("key-invalid leaves keys with another prefix, and keys with another scope", async () => {
    const space = smallInstallation();
    patched(space.users, 1, { apiKey: spaceKey("org", "bob") });
    patched(space.organizations, 0, {
      apiKeys: [
        { key: "abc", scope: "ALL" },
        { key: spaceKey("org", "x"), scope: "READ" },
      ],
    });
    const { planned, left } = await leftOf(space);
    expect(left).toEqual([
      expect.stringMatching(/^key-invalid key bob: org_.{4}… does not begin with usr_, or is no key$/),
      "key-invalid key key 1 of Tasker Inc.: abc… does not begin with org_, or is no key",
      expect.stringMatching(/^key-invalid key key 2 of Tasker Inc\.: org_.{4}… has the scope READ$/),
    ]);
    expect(planned.report.carried.keys).toBe(1);
  });

  it("key-duplicate leaves the second holder without it", async () => {
    const space = smallInstallation();
    patched(space.users, 1, { apiKey: spaceKey("usr", "ada") });
    const key = spaceKey("org", "all");
    space.organizations.push({ _id: objectId("o2"), name: "Two", owner: "bob", apiKeys: [{ key, scope: "ALL" }] });
    const { planned, left } = await leftOf(space);
    expect(left.map((line) => line.replace(/\w{3}_.*…/, "…"))).toEqual([
      "key-duplicate key bob: … is the key of somebody else, too",
      "key-duplicate key key 1 of Two: … is the key of somebody else, too",
    ]);
    expect(left.join()).not.toContain(key);
    expect(rowsOf(planned, "users")[1]?.apiKey).toBeNull();
  });

  it("member-unknown and member-duplicate, also the owner", async () => {
    const space = smallInstallation();
    const role = "ADMIN";
    const members = ["bob", "ada", "bob", "gone"].map((username) => ({ username, role }));
    patched(space.organizations, 0, { members });
    const { planned, left } = await leftOf(space);
    expect(left).toEqual([
      "member-duplicate member ada in Tasker Inc.: It is the owner",
      "member-duplicate member bob in Tasker Inc.: It is a member already",
      "member-unknown member gone in Tasker Inc.: There is no such user",
    ]);
    expect(planned.report.carried.members).toBe(1);
  });
});

describe("services", () => {
  it("organization-missing leaves services with their versions, and contracts", async () => {
    const space = smallInstallation();
    space.organizations[0] = { _id: objectId("another"), name: "Another", owner: "ada" };
    expect((await leftOf(space)).left).toEqual([
      `organization-missing service Tasker: There is no organization ${organizationId}`,
      "organization-missing version Tasker 2_0_0: Its service is left",
      "organization-missing version Tasker 1_0_0: Its service is left",
      `organization-missing contract u1: There is no organization ${organizationId}`,
      `organization-missing contract u2: There is no organization ${organizationId}`,
    ]);
  });

  it("duplicate-name leaves the second of two names that differ in case only", async () => {
    const space = smallInstallation();
    const id = objectId("other 3", 30);
    const text = TASKER["1.0.0"].replace('"1.0.0"', '"3.0.0"');
    space.pricings.push(storedPricing(text, { id, service: "tasker", organizationId }));
    space.services.push({
      _id: objectId("tasker"),
      name: "tasker",
      organizationId,
      activePricings: { "3_0_0": { id } },
    });
    expect((await leftOf(space)).left).toEqual([
      "duplicate-name service tasker: Another service has this name, or one that differs in case only",
      "duplicate-name version tasker 3_0_0: Its service is left",
    ]);
  });

  it("version-missing, version-duplicate and pricing-unreferenced", async () => {
    const space = smallInstallation();
    const id = objectId("Tasker 2.0.0", 20);
    patched(space.services, 0, {
      activePricings: {
        "2_0_0": { id },
        "2.0.0": { id: objectId("gone") },
        "3_0_0": { id: objectId("gone") },
        "4_0_0": {},
      },
      archivedPricings: undefined,
    });
    const { planned, left } = await leftOf({ ...space, contracts: [] });
    expect(left).toEqual([
      "version-duplicate version Tasker 2.0.0: Another version has this name, or its pricing",
      `version-missing version Tasker 3_0_0: No pricing has the id ${objectId("gone").toHexString()}`,
      "version-missing version Tasker 4_0_0: It names no pricing",
      "pricing-unreferenced pricing Tasker 1_0_0: No service refers to it",
    ]);
    expect(planned.report.carried.versions).toBe(1);
  });

  it("version-not-fetched: contracts of the version stay without it", async () => {
    const space = smallInstallation();
    const url = "https://pricings.example/3.yml";
    patched(space.services, 0, {
      activePricings: {
        "2_0_0": { id: objectId("Tasker 2.0.0", 20) },
        "3_0_0": { url },
        "4_0_0": { url: "public/4.yml" },
      },
    });
    const contracts = [
      spaceContract("u", { contractedServices: { tasker: "3.0.0" }, usageLevels: {}, subscriptionAddOns: {} }),
    ];
    const { planned, left } = await leftOf({ ...space, contracts });
    expect(left).toEqual([
      `version-not-fetched version Tasker 3_0_0: ${url} is fetched only with --fetch`,
      "version-not-fetched version Tasker 4_0_0: public/4.yml is not in the folder of --statics",
      "contracted-version-missing contract u: tasker has no version 3.0.0",
    ]);
    expect(rowsOf(planned, "contracts")).toMatchObject([{ services: [], levels: [], history: [{}] }]);

    const text = TASKER["1.0.0"].replace('"1.0.0"', '"3.0.0"');
    const fetched = await leftOf(
      { ...space, contracts },
      {
        fetched: () => ({ text }),
        file: (path) => (path === "public/4.yml" ? text.replace('"3.0.0"', '"4_0.0"') : undefined),
      },
    );
    expect(fetched.left).toEqual([]);
    const versions = rowsOf(fetched.planned, "services")[0]?.versions;
    expect(versions?.map(({ version, url }) => [version, url])).toEqual([
      ["1.0.0", null],
      ["2.0.0", null],
      ["3.0.0", url],
      ["4_0.0", "public/4.yml"],
    ]);
    const failed = await leftOf({ ...space, contracts }, { fetched: () => ({ error: "404" }) });
    expect(failed.left[0]).toBe(`version-not-fetched version Tasker 3_0_0: ${url}: 404`);
  });

  it("version-unreadable names the problem", async () => {
    const space = smallInstallation();
    patched(space.pricings, 1, { currency: "XXXX" });
    patched(space.pricings, 0, { plans: { FREE: { name: "FREE", price: 0, features: {}, usageLimits: {} } } });
    patched(space.services, 0, {
      activePricings: { "1_0_0": { id: objectId("Tasker 1.0.0", 10) }, "3_0_0": { url: "https://x.example" } },
      archivedPricings: { "2_0_0": { id: objectId("Tasker 2.0.0", 20) } },
      disabled: true,
    });
    const { planned, left } = await leftOf({ ...space, contracts: [] }, { fetched: () => ({ text: TASKER["1.0.0"] }) });
    expect(left).toEqual([
      "version-unreadable version Tasker 1_0_0: plans.FREE.features.board cannot be written as Pricing2Yaml 3.0",
      "version-unreadable version Tasker 3_0_0: https://x.example is version 1.0.0 now",
      "version-unreadable version Tasker 2_0_0: The currency code XXXX is not a valid ISO 4217 currency code",
    ]);
    // A disabled service is carried without any version.
    expect(planned.report.carried).toMatchObject({ services: 1, versions: 0 });
  });

  it("service-empty leaves a service without an active version", async () => {
    const space = smallInstallation();
    space.pricings.splice(1, 1);
    expect((await leftOf({ ...space, contracts: [spaceContract("u")] })).left).toEqual([
      `version-missing version Tasker 2_0_0: No pricing has the id ${objectId("Tasker 2.0.0", 20).toHexString()}`,
      "service-empty service Tasker: It has no active version left",
      "service-empty version Tasker 1.0.0: Its service is left",
      "contracted-service-missing contract u: There is no service tasker",
      "level-untracked level tasker maxTasks for u: The contract's versions have no such limit with usage",
      "level-untracked level tasker calls for u: The contract's versions have no such limit with usage",
    ]);
  });
});

describe("contracts", () => {
  const oneContract = (changes: Document) => ({ ...smallInstallation(), contracts: [spaceContract("u", changes)] });

  it("duplicate-name leaves the second contract of an end user", async () => {
    const space = smallInstallation();
    space.contracts.push(spaceContract("u1", { _id: objectId("again") }));
    expect((await leftOf(space)).left).toEqual(["duplicate-name contract u1: Another contract has this userId"]);
  });

  it("contracted-service-missing and contracted-service-disabled: the contract stays", async () => {
    const space = smallInstallation();
    patched(space.services, 0, { disabled: true });
    const changes = {
      contractedServices: { tasker: "2_0_0", zoom: "1" },
      usageLevels: {},
      subscriptionPlans: { other: "X" },
    };
    const { planned, left } = await leftOf({ ...space, contracts: [spaceContract("u", changes)] });
    expect(left).toEqual([
      "contracted-service-disabled contract u: The service tasker is disabled",
      "contracted-service-missing contract u: There is no service zoom",
      "contracted-service-missing contract u: subscriptionPlans names other, which is not contracted",
    ]);
    expect(rowsOf(planned, "contracts")).toMatchObject([{ services: [], levels: [] }]);
  });

  it("contracted-version-missing", async () => {
    const { left } = await leftOf(oneContract({ contractedServices: { tasker: "9_9" }, usageLevels: {} }));
    expect(left).toEqual(["contracted-version-missing contract u: tasker has no version 9_9"]);
  });

  it("add-on-unknown leaves the add-on", async () => {
    const addOns = { extraTasks: 1, gone: 2, support: "x" };
    const { planned, left } = await leftOf(oneContract({ subscriptionAddOns: { tasker: addOns } }));
    expect(left).toEqual([
      "add-on-unknown contract u: tasker has no add-on gone",
      "add-on-unknown contract u: tasker has an add-on support without a quantity",
    ]);
    expect(rowsOf(planned, "contracts")[0]?.services).toMatchObject([{ addOns: { extraTasks: 1 } }]);
  });

  it("level-untracked leaves levels of limits without usage", async () => {
    const base = spaceContract("u")["usageLevels"] as Record<string, Document>;
    const usageLevels = { tasker: { ...base["tasker"], seats: { consumed: 1 } }, zoom: { calls: { consumed: 2 } } };
    expect((await leftOf(oneContract({ usageLevels }))).left).toEqual([
      "level-untracked level tasker seats for u: The contract's versions have no such limit with usage",
      "level-untracked level zoom calls for u: The contract's versions have no such limit with usage",
    ]);
  });
});

it("field-unknown counts once per collection and field", async () => {
  const space = smallInstallation();
  space.contracts = Array.from({ length: 12 }, (_, index) => spaceContract(`n${index}`, { notes: "x" }));
  patched(space.contracts, 0, { userContact: { userId: "n0", username: "n", age: 3 } });
  patched(space.users, 0, { theme: "dark" });
  const { planned, left } = await leftOf(space);
  expect(left).toEqual([
    "field-unknown field users.theme: In 1 document",
    "field-unknown field contracts.userContact.age: In 1 document",
    "field-unknown field contracts.notes: In 12 documents",
  ]);
  expect(planned.report.carried).toMatchObject({ users: 2, contracts: 12 });
});
