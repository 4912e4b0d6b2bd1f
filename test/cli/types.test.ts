import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { runFaregate } from "./io.ts";

const SAMPLES = resolve(import.meta.dirname, "../../src/samples");
const tasker = readFileSync(resolve(SAMPLES, "tasker.yml"), "utf8");
const beacon = readFileSync(resolve(SAMPLES, "beacon.yml"), "utf8");
const scribe = readFileSync(resolve(SAMPLES, "scribe.yml"), "utf8");
const OUT = "faregate-features.d.ts";

describe("faregate", () => {
  test("--help names every command and the exit codes, --version the version, both on standard output", async () => {
    const help = await runFaregate(["--help"]);
    expect(help).toMatchObject({ code: 0, err: "" });
    expect(help.out).toMatch(/Commands:\n +types .*Write a declaration/);
    expect(help.out).toContain("Exit codes: 0 done; 1 the answer is no");
    expect(await runFaregate(["--version"])).toMatchObject({ code: 0, out: "1.2.3\n" });
    expect((await runFaregate(["types", "--help"])).out).toMatch(/--check/);
  });

  test("a mistake of its own is said whole, with exit code 2: 1 would be an answer", async () => {
    const readFile = () => Promise.reject(new TypeError("not meant to happen"));
    const run = await runFaregate(["types", "a.yml", "--check"], {}, { readFile });
    expect(run.code).toBe(2);
    expect(run.err).toMatch(/TypeError: not meant to happen\n +at /);
  });

  test("wrong usage is exit code 2, with a hint on standard error", async () => {
    for (const args of [[], ["tipes"], ["types"], ["types", "--wrong", "a.yml"], ["--wrong"]]) {
      const run = await runFaregate(args);
      expect(run, args.join(" ")).toMatchObject({ code: 2, out: "" });
      expect(run.err).toMatch(/--help|Usage/);
    }
    expect((await runFaregate(["tipes"])).err).toContain("Did you mean types?");
  });
});

describe("faregate types", () => {
  test("writes the ids of several pricings as tokens spell them, sorted, each once", async () => {
    const files = { "tasker.yml": tasker, "beacon.yml": beacon, "again.yml": tasker.replace("1.0.0", "1.1.0") };
    const { code, files: after, err } = await runFaregate(["types", ...Object.keys(files)], files);
    expect(code).toBe(0);
    const ids = [...(after[OUT] ?? "").matchAll(/^ {4}"(.*)": true;$/gm)].map(([, id]) => id);
    expect(ids).toEqual([...new Set(ids)].sort());
    expect(ids).toEqual(expect.arrayContaining(["tasker-board", "tasker-darkMode", "tasker-export", "tasker-sla"]));
    expect(ids.filter((id) => id?.startsWith("tasker-"))).toHaveLength(4);
    expect(ids.some((id) => id?.startsWith("beacon-"))).toBe(true);
    expect(after[OUT]).toMatch(/import "faregate\/client";\n\ndeclare module "faregate\/client" \{\n {2}interface/);
    expect(err).toBe(`${OUT}: ${ids.length} feature ids\n`);
  });

  test("declares the units of limits with rates, sorted, of all pricings together", async () => {
    const files = { "a.yml": scribe, "b.yml": scribe.replace("picture: 4", "film: 40"), "tasker.yml": tasker };
    const { files: after } = await runFaregate(["types", ...Object.keys(files)], files);
    expect(after[OUT]).toContain(
      '  interface LimitUnits {\n    "scribe-credits": "film" | "large.input" | "large.output" | "picture" | "small.input" | "small.output";\n  }\n}\n',
    );
    const other = await runFaregate(["types", ...Object.keys(files), "--service", "tasker"], files);
    expect(other.files[OUT]).not.toContain("LimitUnits");
  });

  test("a feature without any expression has no id, for it can never be evaluated", async () => {
    const source = tasker.replace(/^ {4}expression: .*sla.*\n/m, "");
    const { out } = await runFaregate(["types", "a.yml", "--out", "-"], { "a.yml": source });
    expect(out).toContain('"tasker-export"');
    expect(out).not.toContain("sla");
  });

  test("--out names another file, and - standard output, which then has nothing else", async () => {
    const other = await runFaregate(["types", "a.yml", "-o", "src/ids.d.ts"], { "a.yml": tasker });
    expect(Object.keys(other.files)).toEqual(["a.yml", "src/ids.d.ts"]);
    const piped = await runFaregate(["types", "a.yml", "-o", "-"], { "a.yml": tasker });
    expect(piped).toMatchObject({ out: other.files["src/ids.d.ts"], files: { "a.yml": tasker }, err: "" });
  });

  test("--check is 0 where the file is up to date, and 1, writing nothing, where it is not", async () => {
    const { files } = await runFaregate(["types", "a.yml"], { "a.yml": tasker });
    const text = files[OUT] ?? "";
    expect(await runFaregate(["types", "a.yml", "--check"], files)).toMatchObject({ code: 0, err: "" });
    const checkedOut = { ...files, [OUT]: text.replaceAll("\n", "\r\n") };
    expect(await runFaregate(["types", "a.yml", "--check"], checkedOut)).toMatchObject({ code: 0 });
    const old = { ...files, [OUT]: text.replace('"tasker-sla"', '"tasker-sld"') };
    expect(await runFaregate(["types", "a.yml", "--check"], old)).toMatchObject({
      code: 1,
      err: `${OUT} is out of date: run faregate types without --check.\n`,
      files: old,
    });
    const missing = await runFaregate(["types", "a.yml", "--check"], { "a.yml": tasker });
    expect(missing).toMatchObject({ code: 1, files: { "a.yml": tasker } });
    expect(missing.err).toContain("does not exist");
  });

  test("a broken pricing is exit code 2 with every problem's file, line and column", async () => {
    const broken = tasker.replace("currency: EUR", "currency: 7").replace("valueType: TEXT", "valueType: COLOUR");
    const { code, err, files } = await runFaregate(["types", "good.yml", "bad.yml"], {
      "good.yml": tasker,
      "bad.yml": broken,
    });
    const lineOf = (text: string) => broken.split("\n").findIndex((line) => line.includes(text)) + 1;
    expect(code).toBe(2);
    expect(err).toContain(`\n  bad.yml:${lineOf("currency: 7")}:1 `);
    expect(err).toContain(`\n  bad.yml:${lineOf("COLOUR")}:5 `);
    expect(files[OUT]).toBeUndefined();
    const notYaml = await runFaregate(["types", "bad.yml"], { "bad.yml": "saasName: [\nfeatures: }" });
    expect(notYaml.code).toBe(2);
    expect(notYaml.err).toMatch(/bad\.yml:2:\d+ /);
  });

  test("--service keeps the named services, whatever the case, and refuses one that is not there", async () => {
    const files = { "tasker.yml": tasker, "beacon.yml": beacon };
    const { out } = await runFaregate(["types", ...Object.keys(files), "-o", "-", "-s", "TASKER"], files);
    const both = await runFaregate(["types", "-s", "tasker", "-s", "beacon", ...Object.keys(files), "-o", "-"], files);
    expect(both.out).toBe((await runFaregate(["types", ...Object.keys(files), "-o", "-"], files)).out);
    expect([...out.matchAll(/"(\w+)-/g)].map(([, service]) => service)).toEqual(Array(4).fill("tasker"));
    expect(await runFaregate(["types", ...Object.keys(files), "-s", "Taskr"], files)).toMatchObject({
      code: 2,
      err: "faregate: No service taskr with features; there is Tasker, Beacon.\n",
    });
  });

  test("a pricing without any feature that can be evaluated is refused: an empty declaration would allow every id", async () => {
    const source = tasker.replace(/^ {4}(serverE|e)xpression: .*\n/gm, "");
    const run = await runFaregate(["types", "a.yml"], { "a.yml": source });
    expect(run).toMatchObject({ code: 2, files: { "a.yml": source } });
    expect(run.err).toContain("No feature with an expression in a.yml");
  });

  test("a server without a key, or that cannot be reached, is exit code 2 with its address", async () => {
    const noKey = await runFaregate(["types", "https://faregate.invalid"], {}, { env: { FAREGATE_API_KEY: "" } });
    expect(noKey).toMatchObject({ code: 2, files: {} });
    expect(noKey.err).toContain("https://faregate.invalid needs an organization's key: set FAREGATE_API_KEY");
    const noAddress = await runFaregate(["types", "https://", "--key", "org_secret"]);
    expect(noAddress).toMatchObject({ code: 2, err: "faregate: https:// is no address.\n" });
    const gone = await runFaregate(["types", "https://faregate.invalid", "--key", "org_secret"]);
    expect(gone).toMatchObject({
      code: 2,
      err: expect.stringMatching(
        /^faregate: https:\/\/faregate\.invalid: https:\/\/faregate\.invalid could not be reached: no network in this test\n$/,
      ) as string,
    });
  });

  test("a file that is not there is exit code 2 with its name", async () => {
    expect(await runFaregate(["types", "nope.yml"])).toMatchObject({
      code: 2,
      err: "faregate: nope.yml does not exist.\n",
    });
  });
});
