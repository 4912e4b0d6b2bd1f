import { expect, it } from "vitest";
import { forDriver, parseDatabaseUrl } from "../../src/db/postgres/address.ts";

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
  expect(forDriver(text)).toBe(text.split("?")[0] + query);
});
