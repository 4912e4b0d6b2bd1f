import { describe, expect, it } from "vitest";
import { Names } from "../../../src/core/folder/names.ts";

describe("the paths of an export", () => {
  it.each([
    ["Tasker", "tasker"],
    ["My Service / 2", "my-service---2"],
    ["..", "--"],
    ["con", "_con"],
    ["CON", "_con"],
    ["nul", "_nul"],
    ["Com1", "_com1"],
    ["lpt9.old", "_lpt9.old"],
    ["console", "console"],
    [".git", "_git"],
    [".GIT", "_git"],
    [".github", ".github"],
    ["Acme Inc.", "acme-inc-"],
    ["faregate.yml", "faregate.yml-2"],
  ])("of the service %s begin with %s", (service, folder) => {
    expect(new Names([]).folder(service)).toBe(folder);
  });

  it("name versions that would be devices otherwise, and keep their dots", () => {
    const names = new Names([]);
    expect(names.file("tasker", "aux", ".yml")).toBe("tasker/_aux.yml");
    expect(names.file("tasker", "1.0.", ".yml")).toBe("tasker/1.0..yml");
  });

  it("are numbered when they clash, also with a path in other letter case", () => {
    const names = new Names(["Tasker/1.0.0.yml"]);
    expect([names.folder("con"), names.folder("_con"), names.folder("CON")]).toEqual(["_con", "_con-2", "_con-3"]);
    expect(names.file("tasker", "1.0.0", ".yml")).toBe("tasker/1.0.0-2.yml");
  });

  it("are short enough for a file system, and differ where only the end of a long name does", () => {
    const names = new Names([]);
    const long = "v".repeat(254);
    const files = ["a", "b"].map((end) =>
      names.file("tasker", long + end, ".expectations.yml").slice("tasker/".length),
    );
    expect(new Set(files).size).toBe(2);
    for (const file of files) expect(file.length).toBeLessThanOrEqual(255);
  });
});
