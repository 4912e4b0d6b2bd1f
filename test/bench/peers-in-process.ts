import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { compilePricing } from "../../src/core/pricing/compile.ts";
import { evaluateBoolean, featureIds } from "../../src/core/pricing/evaluate.ts";
import { type BenchRow, measure, MODE, parsed, prepared } from "./pricing.ts";
import { pricingOf } from "./side-by-side.ts";

/*
 * Compares the engine with libraries that answer flags in the caller's process. Each is asked for thirty flags of one
 * user, of which every second one is on.
 */

const FLAGS = 30;
const USER = { userId: "user-1" };
const PACKAGES = [
  "unleash-client@6.12.1",
  "@growthbook/growthbook@1.8.0",
  "@casl/ability@7.0.1",
  "@openfeature/core@1.12.0",
  "@openfeature/flagd-core@4.0.1",
  "@marcbachmann/cel-js@8.0.0",
];

export const FLAG_NAMES: readonly string[] = Array.from({ length: FLAGS }, (_, index) => `feature${index}`);
const isOn = (name: string) => FLAG_NAMES.indexOf(name) % 2 === 0;
/** Users for whom a flag is on. */
const usersOf = (name: string) => [isOn(name) ? USER.userId : "somebody-else"];

/** Installs packages into a new folder and returns it. */
export async function install(home: string, packages: readonly string[]): Promise<string> {
  await mkdir(home);
  await writeFile(join(home, "package.json"), '{ "private": true, "type": "commonjs" }');
  const given = ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...packages];
  await promisify(execFile)("npm", given, { cwd: home });
  return home;
}

/** Returns how many flags are on. */
type CountOn = () => number;
const count = (answer: (name: string) => boolean): CountOn => {
  return () => {
    let on = 0;
    for (const name of FLAG_NAMES) if (answer(name)) on += 1;
    return on;
  };
};

/** The parts of the libraries that are used: none of them is a dependency of this project. */
interface Libraries {
  "unleash-client": {
    Unleash: new (options: object) => {
      isEnabled(name: string, context: object): boolean;
      on(event: string, listener: () => void): void;
      once(event: string, listener: () => void): void;
      destroy(): void;
    };
    InMemStorageProvider: new () => object;
  };
  "@growthbook/growthbook": { GrowthBook: new (options: object) => { isOn(name: string): boolean } };
  "@casl/ability": { createMongoAbility: (rules: object[]) => { can(action: string, subject: string): boolean } };
  "@openfeature/flagd-core": {
    FlagdCore: new () => {
      setConfigurations(text: string): void;
      resolveBooleanEvaluation(name: string, fallback: boolean, context: object, log: object): { value: boolean };
    };
  };
}
type Load = <Name extends keyof Libraries>(name: Name) => Libraries[Name];

async function unleash(load: Load): Promise<CountOn> {
  const { Unleash, InMemStorageProvider } = load("unleash-client");
  const client = new Unleash({
    appName: "bench",
    url: "http://127.0.0.1:1/api",
    refreshInterval: 0,
    disableMetrics: true,
    storageProvider: new InMemStorageProvider(),
    bootstrap: {
      data: FLAG_NAMES.map((name) => ({
        name,
        type: "release",
        enabled: true,
        variants: [],
        strategies: [
          {
            name: "default",
            parameters: {},
            constraints: [{ contextName: "userId", operator: "IN", values: usersOf(name) }],
          },
        ],
      })),
    },
  });
  // Nothing listens at its address: the flags come with the options.
  for (const event of ["error", "warn"]) client.on(event, () => {});
  await new Promise<void>((ready) => client.once("ready", ready));
  client.destroy();
  return count((name) => client.isEnabled(name, USER));
}

function growthBook(load: Load): CountOn {
  const rulesOf = (name: string) => [{ condition: { userId: { $in: usersOf(name) } }, force: true }];
  const features = FLAG_NAMES.map((name) => [name, { defaultValue: false, rules: rulesOf(name) }]);
  const client = new (load("@growthbook/growthbook").GrowthBook)({
    attributes: USER,
    features: Object.fromEntries(features),
  });
  return count((name) => client.isOn(name));
}

function casl(load: Load): CountOn {
  const rules = FLAG_NAMES.filter(isOn).map((subject) => ({ action: "use", subject }));
  const ability = load("@casl/ability").createMongoAbility(rules);
  return count((name) => ability.can("use", name));
}

function flagd(load: Load): CountOn {
  const core = new (load("@openfeature/flagd-core").FlagdCore)();
  const flags = FLAG_NAMES.map((name) => [
    name,
    {
      state: "ENABLED",
      variants: { on: true, off: false },
      defaultVariant: "off",
      targeting: { if: [{ in: [{ var: "userId" }, usersOf(name)] }, "on", "off"] },
    },
  ]);
  core.setConfigurations(JSON.stringify({ flags: Object.fromEntries(flags) }));
  const silent = { error: () => {}, warn: () => {}, info: () => {}, debug: () => {} };
  return count((name) => core.resolveBooleanEvaluation(name, false, USER, silent).value);
}

async function cel(home: string): Promise<CountOn> {
  const file = createRequire(join(home, "x.js")).resolve("@marcbachmann/cel-js");
  const { parse } = (await import(pathToFileURL(file).href)) as {
    parse: (text: string) => (context: object) => unknown;
  };
  const rules = new Map(FLAG_NAMES.map((name) => [name, parse(`features["${name}"]`)]));
  const context = { features: Object.fromEntries(FLAG_NAMES.map((name) => [name, isOn(name)])) };
  return count((name) => rules.get(name)?.(context) === true);
}

function faregate(): CountOn {
  const values = FLAG_NAMES.map((name) => `${name}: { value: ${isOn(name)} }`);
  const text = pricingOf("Bench", FLAGS, false).replace("features: null", `features: { ${values.join(", ")} }`);
  const evaluation = prepared(compilePricing(parsed(text)), "bench");
  const ids = featureIds(evaluation, MODE);
  const usage = new Map<string, number>();
  return () => {
    let on = 0;
    for (const id of ids) if (evaluateBoolean(evaluation, id, usage, MODE)) on += 1;
    return on;
  };
}

/** Measures all libraries in one process, in interleaved rounds. */
export async function runInProcess(): Promise<BenchRow[]> {
  const folder = await mkdtemp(join(tmpdir(), "faregate-peers-"));
  try {
    const home = await install(join(folder, "libraries"), PACKAGES);
    const load: Load = createRequire(join(home, "x.js"));
    const peers = [
      { name: "unleash-client 6.12", job: await unleash(load), least: 5 },
      { name: "GrowthBook 1.8", job: growthBook(load), least: 12 },
      { name: "CASL 7.0", job: casl(load), least: 1 },
      { name: "flagd-core 4.0", job: flagd(load), least: 5 },
      { name: "CEL (@marcbachmann/cel-js 8.0)", job: await cel(home), least: 1 },
    ];
    const ours = faregate();
    for (const job of [ours, ...peers.map((peer) => peer.job)]) {
      if (job() !== FLAGS / 2) throw new Error(`the libraries disagree: ${job()} flags are on`);
    }
    const [own = 1, ...others] = measure([ours, ...peers.map((peer) => peer.job)], 2_000);
    const million = (milliseconds: number) => (FLAGS / milliseconds / 1_000).toFixed(1);
    return peers.map(({ name, least }, index) => {
      const other = others[index] ?? Number.NaN;
      return {
        name: `true/false, 30 flags in process / ${name}`,
        detail: `${million(own)} of ${million(other)} million flags per second`,
        value: other / own,
        target: `>= ${least}`,
        ok: other / own >= least,
      };
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
