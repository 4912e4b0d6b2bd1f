import { describe, expect, test } from "vitest";
import type { Caller } from "../../../src/core/access/caller.ts";
import { PERMISSION_RULES } from "../../../src/core/access/permissions.ts";
import { findRule } from "../../../src/core/access/find-rule.ts";
import { checkPermission } from "../../../src/core/access/check-permission.ts";

/** Decision of the table for a path of the API. */
const deny = (caller: Caller, method: string, path: string, namesOrganization: boolean) =>
  checkPermission(findRule(method, path), caller, method, path, namesOrganization);

const user = (role: "ADMIN" | "USER"): Caller => ({ kind: "user", id: "1", username: "marta", role });
const key = (scope: "ALL" | "MANAGEMENT" | "EVALUATION"): Caller => ({
  kind: "key",
  keyId: "2",
  organizationId: "3",
  scope,
});
const CALLERS: readonly Caller[] = [
  { kind: "anonymous" },
  user("ADMIN"),
  user("USER"),
  key("ALL"),
  key("MANAGEMENT"),
  key("EVALUATION"),
];

/*
 * Contract users-organizations §7.1, row by row: sample path, methods, then what an anonymous caller, an ADMIN, a USER and
 * the keys ALL, MANAGEMENT, EVALUATION get: - is a pass, a letter is the denial.
 */
const GATE = `
/users/authenticate                          POST                       - - - - - -
/users                                       POST                       - - - - - -
/users                                       GET PUT PATCH DELETE       K - - U U U
/users/marta/api-key                         GET POST PUT PATCH DELETE  K - - U U U
/organizations/o/services                    GET POST DELETE            K - - U U U
/organizations/o/services/s                  GET PUT PATCH DELETE       K - - U U U
/organizations/o/services/s/pricings         GET POST                   K - - U U U
/organizations/o/services/s/pricings/1       GET PUT PATCH DELETE       K - - U U U
/organizations/o/contracts                   GET POST DELETE            K - - S S S
/organizations/o/contracts                   PUT                        K - - U U U
/organizations/o/contracts/c                 GET PUT PATCH DELETE       K - - S S S
/organizations                               GET POST PUT PATCH DELETE  K - - U U U
/organizations/o/members/marta               GET POST PUT PATCH DELETE  K - - U U U
/services                                    GET                        K - R - - -
/services                                    POST                       K R R - - S
/services                                    DELETE                     K - R - S S
/services                                    PUT PATCH                  X X X X X X
/services/s                                  GET                        K R R - - -
/services/s                                  PUT PATCH                  K R R - - S
/services/s                                  DELETE                     K R R - S S
/services/s                                  POST                       X X X X X X
/services/s/pricings                         GET                        K R R - - -
/services/s/pricings                         POST                       K R R - - S
/services/s/pricings                         PUT PATCH DELETE           X X X X X X
/services/s/pricings/1                       GET                        K R R - - -
/services/s/pricings/1                       PUT PATCH                  K R R - - S
/services/s/pricings/1                       DELETE                     K R R - S S
/services/s/pricings/1/public-url            GET                        K R R - - -
/services/s/versions                         GET                        K R R - - -
/services/s/versions                         POST PUT PATCH DELETE      X X X X X X
/services/s/pricings/1/source                GET                        K R R - - -
/services/s/pricings/1/source                POST PUT PATCH DELETE      X X X X X X
/services/s/pricings/1/expectations          GET                        K R R - - -
/services/s/pricings/1/expectations          PUT                        K R R - - S
/services/s/pricings/1/expectations          POST PATCH DELETE          X X X X X X
/organization                                GET                        K R R - - -
/organization                                POST PUT PATCH DELETE      X X X X X X
/services/s/pricings/1/public-url            POST PUT PATCH DELETE      X X X X X X
/contracts                                   GET POST PUT               K - R - - S
/contracts                                   DELETE                     K - R - S S
/contracts/c/usageLevels                     GET PUT PATCH              K - R - - S
/contracts/c                                 DELETE                     K - R - S S
/contracts/c                                 POST                       X X X X X X
/features                                    GET                        K R R - - -
/features/u                                  POST                       K R R - - -
/features/u/f                                POST                       K R R - - -
/features/u                                  PUT PATCH DELETE           K R R - - S
/features/u                                  GET                        X X X X X X
/usage                                       GET                        K - R - - S
/usage                                       POST                       K R R - - -
/usage                                       PUT PATCH DELETE           X X X X X X
/analytics/api-calls                         GET                        K - - - - -
/analytics/api-calls                         POST PUT PATCH DELETE      X X X X X X
/cache/get                                   GET POST                   K - R U U U
/cache/get                                   PUT PATCH DELETE           X X X X X X
/events/status                               GET POST                   - - - - - -
/events/status                               PUT PATCH DELETE           X X X X X X
/healthcheck                                 GET                        - - - - - -
/healthcheck                                 POST PUT PATCH DELETE      X X X X X X
/                                            GET POST PUT PATCH DELETE  X X X X X X
/nonexistent-route                           GET POST PUT PATCH DELETE  X X X X X X
/Users                                       GET POST PUT PATCH DELETE  X X X X X X
/usersx                                      GET POST PUT PATCH DELETE  X X X X X X
`;

const CALLER_NAMES = ["a caller without a key", "ADMIN", "USER", "key ALL", "key MANAGEMENT", "key EVALUATION"];

/** Lists the callers that a row of the table denies. */
function deniedCallers(row: readonly string[]): string {
  const denied = CALLER_NAMES.filter((_, i) => row[i] !== "-");
  if (denied.length === CALLER_NAMES.length) return "everybody";
  return denied.length === 0 ? "nobody" : denied.join(", ");
}

describe("the gate answers every caller as the table says", () => {
  for (const line of GATE.trim().split("\n")) {
    const [path = "", ...words] = line.split(/\s+/);
    const expected = words.slice(-CALLERS.length);
    for (const method of words.slice(0, -CALLERS.length)) {
      test(`${method} ${path} denies ${deniedCallers(expected)}`, () => {
        const letters = CALLERS.map((caller) => deny(caller, method, path, false)?.letter ?? "-");
        expect(letters).toEqual(expected);
      });
    }
  }
});

test("rows of the root decide there alone, and those of the interface only inside of it", () => {
  for (const path of ["/ofrep/v1/evaluate/flags", "/ofrep/v1/evaluate/flags/tasker-board"]) {
    expect(
      CALLERS.map((caller) => checkPermission(findRule("POST", path, "/"), caller, "POST", path, false)?.letter),
    ).toEqual(["K", "R", "R", undefined, undefined, undefined]);
    expect(findRule("GET", path, "/")).toBeUndefined();
    expect(findRule("POST", path)).toBeUndefined();
  }
  for (const { pattern, methods, base } of PERMISSION_RULES) {
    const [method = "GET"] = methods;
    if (base !== "/") expect(findRule(method, pattern, "/"), pattern).toBeUndefined();
  }
});

describe("a denial has the contract's sentence", () => {
  test("a missing key: asks for the header", () => {
    expect(deny({ kind: "anonymous" }, "GET", "/users", false)?.message).toBe(
      'API Key not found. Please ensure to add an API Key as value of the "x-api-key" header.',
    );
  });
  test("a user's role: names the role, the method and the path", () => {
    expect(deny(user("USER"), "GET", "/services", false)?.message).toBe(
      "Your user role (USER) does not have permission to GET /services",
    );
    expect(deny(user("ADMIN"), "POST", "/services", false)?.message).toBe(
      "Your user role (ADMIN) does not have permission to POST /services",
    );
  });
  test("a key's scope: names the scope, the method and the path", () => {
    expect(deny(key("EVALUATION"), "DELETE", "/contracts/u", false)?.message).toBe(
      "Your organization API key role (EVALUATION) does not have permission to DELETE /contracts/u",
    );
  });
  test("an organization's key: asks for a user key", () => {
    expect(deny(key("ALL"), "GET", "/users", false)?.message).toBe(
      "This route requires a user API key. Organization API keys are not allowed",
    );
  });
  test("a path without a rule: names the missing rule", () => {
    expect(deny({ kind: "anonymous" }, "GET", "/nonexistent-route", false)).toEqual({
      letter: "X",
      message: "You do not have permission to access this resource",
      details: "No permission rule found for GET /nonexistent-route",
    });
  });
});

test("HEAD is allowed wherever GET is", () => {
  expect(findRule("HEAD", "/services")).toBe(findRule("GET", "/services"));
  expect(findRule("OPTIONS", "/services")).toBeUndefined();
});

test("a platform ADMIN who names the organization deletes services and versions on top-level paths, and nothing more", () => {
  for (const path of ["/services/s", "/services/s/pricings/1"]) {
    expect(deny(user("ADMIN"), "DELETE", path, true)).toBeUndefined();
    expect(deny(user("USER"), "DELETE", path, true)?.letter).toBe("R");
    expect(deny(user("ADMIN"), "PUT", path, true)?.letter).toBe("R");
  }
});

test("inside an organization every role reads, managers write, and OWNER and ADMIN remove", () => {
  for (const path of ["/organizations/o/services", "/organizations/o/services/s", "/organizations/o/contracts/c"]) {
    expect(findRule("GET", path)?.members).toEqual(["OWNER", "ADMIN", "MANAGER", "EVALUATOR"]);
    expect(findRule("DELETE", path)?.members).toEqual(["OWNER", "ADMIN"]);
  }
  for (const [method, path] of [
    ["POST", "/organizations/o/services"],
    ["PUT", "/organizations/o/services/s"],
    ["POST", "/organizations/o/services/s/pricings"],
    ["PUT", "/organizations/o/services/s/pricings/1"],
    ["POST", "/organizations/o/contracts"],
    ["PUT", "/organizations/o/contracts"],
    ["PUT", "/organizations/o/contracts/c"],
  ] as const) {
    expect(findRule(method, path)?.members).toEqual(["OWNER", "ADMIN", "MANAGER"]);
  }
});
