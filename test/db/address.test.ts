import { describe, expect, it } from "vitest";
import { forDriver, overSocket, overTcp, parseDatabaseUrl } from "../../src/db/postgres/address.ts";

it("splits a database URL with one host or several", () => {
  expect(parseDatabaseUrl("postgres://ann%40a:p%2Fw@db.example/shop?sslmode=require")).toMatchObject({
    protocol: "postgres:",
    hosts: "db.example",
    names: ["db.example"],
    ports: ["5432"],
    username: "ann@a",
    password: "p/w",
    database: "shop",
  });
  const several = parseDatabaseUrl("postgresql://u:p@a:6000,[::1]:6001,c/shop?target_session_attrs=read-write");
  expect(several).toMatchObject({
    hosts: "a:6000,[::1]:6001,c",
    names: ["a", "::1", "c"],
    ports: ["6000", "6001", "5432"],
    database: "shop",
  });
  expect(several?.parameters.get("target_session_attrs")).toBe("read-write");
});

it("shows nothing of a password with an unescaped @", () => {
  expect(parseDatabaseUrl("postgres://u:p@ss@db.example/shop")).toMatchObject({
    hosts: "db.example",
    names: ["db.example"],
    password: "p@ss",
  });
});

it.each([
  "",
  "shop",
  "postgres://u:100%@a/shop",
  "postgres://a:port/shop",
  "postgres://a,/shop",
  "postgres://a,b:x/shop",
])("rejects %j", (text) => {
  expect(parseDatabaseUrl(text)).toBeUndefined();
});

it.each([
  ["postgres://u:p@a/shop", ""],
  ["postgres://u:p@a:1,b:2/shop?sslmode=require&channel_binding=require", "?sslmode=require"],
  ["postgres://u:p@a/shop?pgbouncer=true&connection_limit=1&supa=base-pooler.x", ""],
  ["postgres://u:p@a/shop?application_name=rates&target_session_attrs=any", "?application_name=rates"],
  [
    "postgres://u:p@a/shop?target_session_attrs=read-write&options=-c%20a%3Db",
    "?target_session_attrs=read-write&options=-c%20a%3Db",
  ],
])("gives %s to the driver without what only other programs understand", (text, query) => {
  expect(forDriver(text, { max: 1 })).toEqual([text.split("?")[0] + query, { max: 1 }]);
});

describe("an address with a folder as ?host=, which Postgres' own programs know too", () => {
  const TCP = "postgres://u:p@127.0.0.1:6000/shop";

  it.each([
    [`${TCP}?host=%2Fdata%2Fa%20b`, TCP, "/data/a b/.s.PGSQL.6000"],
    [
      "postgres://u:p@h/shop?sslmode=disable&host=/cloudsql/a:b:c",
      "postgres://u:p@h/shop?sslmode=disable",
      "/cloudsql/a:b:c/.s.PGSQL.5432",
    ],
  ])("leads the driver of %s to a Unix-domain socket", (text, url, path) => {
    expect(forDriver(text, { max: 1 })).toEqual([url, { max: 1, path }]);
  });

  it("leaves other hosts there to Postgres, which refuses them", () => {
    expect(forDriver(`${TCP}?host=other`, {})).toEqual([`${TCP}?host=other`, {}]);
  });

  it("names the folder to other programs, and to operators", () => {
    expect(parseDatabaseUrl(overSocket(TCP, "/data/a b"))).toMatchObject({
      hosts: "/data/a b",
      names: ["/data/a b"],
      ports: ["6000"],
      username: "u",
      database: "shop",
    });
  });

  it.each([TCP, `${TCP}?sslmode=disable`])("comes from %s and returns to it", (url) => {
    expect(overTcp(overSocket(url, "/data/a&b?c"))).toBe(url);
    expect(overTcp(`${overSocket(url, "/data")}&application_name=x`)).toMatch(/[?&]application_name=x$/);
    expect(overTcp(`${TCP}?host=other`)).toBe(`${TCP}?host=other`);
  });
});
