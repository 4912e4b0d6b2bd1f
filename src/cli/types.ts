import { Faregate } from "../client/back/faregate.ts";
import type { ListedFeature } from "../client/back/features.ts";
import { ServiceRequestError } from "../client/service-request-error.ts";
import { creditTermsOf } from "../core/pricing/credits.ts";
import { type CliCommand, CliFailure, EXIT, type Io } from "./command.ts";
import { readPricingFile } from "./pricing-file.ts";

const DEFAULT_OUT = "faregate-features.d.ts";
const PAGE = 1_000;

interface Options {
  out: string;
  check?: true;
  service?: string[];
  key?: string;
}

/** A feature with an expression, and its service in the pricing's spelling. */
interface Evaluable {
  readonly service: string;
  readonly name: string;
}

/** A limit with rates, and its service in the pricing's spelling. */
interface Rated {
  readonly service: string;
  readonly limit: string;
  readonly units: readonly string[];
}

interface Found {
  readonly features: readonly Evaluable[];
  readonly rates: readonly Rated[];
}

/** `faregate types` writes a declaration that narrows FeatureId and Units to those of given pricings. */
export const types: CliCommand = {
  name: "types",
  summary: "Write a declaration file, so that TypeScript knows the feature ids of your pricings.",
  declare(command) {
    command
      .argument("<source...>", "pricing files in YAML, and addresses of Faregate servers, any number of each")
      .option("-o, --out <file>", "the file to write; - for standard output", DEFAULT_OUT)
      .option("-s, --service <name>", "only this service; may be given several times", collect)
      .option("-k, --key <key>", "an organization's key of any scope, for servers; default: $FAREGATE_API_KEY")
      .option("--check", "write nothing; exit with 1 if the file is not what would be written")
      .addHelpText(
        "after",
        `
From a server come the features of all active pricings, and the units of the newest ones.

  faregate types pricing.yml -o src/features.d.ts
  FAREGATE_API_KEY=org_... faregate types https://faregate.example --service Tasker --check`,
      );
  },
  async run(given, io) {
    const { out, check, service, key = io.env["FAREGATE_API_KEY"] } = given.opts<Options>();
    const found: Evaluable[] = [];
    const rated: Rated[] = [];
    for (const source of given.args) {
      const { features, rates } = await (isAddress(source) ? readServer(source, key, io) : readFile(source, io));
      found.push(...features);
      rated.push(...rates);
    }
    const ids = new Set(chosen(found, service).map(({ service, name }) => `${service.toLowerCase()}-${name}`));
    if (ids.size === 0) throw new CliFailure(`No feature with an expression in ${given.args.join(", ")}.`);
    const text = declaration(ids, unitsOf(rated, service));
    if (check === true) return compare(out, text, io);
    if (out === "-") io.out(text);
    else {
      await io.writeFile(out, text);
      io.err(`${out}: ${ids.size} feature ids\n`);
    }
    return EXIT.done;
  },
};

/** Collects a repeatable option. Not `<name...>`, which would consume the sources after it. */
const collect = (name: string, before: string[] = []) => [...before, name];

const isAddress = (source: string) => /^https?:\/\//i.test(source);

/** Pricing tokens contain only features with an expression. */
const isEvaluable = ({
  expression,
  serverExpression,
}: Pick<ListedFeature["info"], "expression" | "serverExpression">) =>
  expression !== undefined || serverExpression !== undefined;

/**
 * Reads the features and rates of a file.
 * @throws CliFailure with the place of every problem.
 */
async function readFile(path: string, io: Io): Promise<Found> {
  const { pricing } = await readPricingFile(path, io);
  const { saasName: service, features } = pricing;
  return {
    features: features.filter(isEvaluable).map(({ name }) => ({ service, name })),
    rates: [...creditTermsOf(pricing).rates].map(([limit, costs]) => ({ service, limit, units: [...costs.keys()] })),
  };
}

/**
 * Reads the features of a server, and the rates that the offers of their services show.
 * @throws CliFailure with the URL and the error of the server or the network.
 */
async function readServer(url: string, key: string | undefined, io: Io): Promise<Found> {
  if (key === undefined || key === "") {
    throw new CliFailure(`${url} needs an organization's key: set FAREGATE_API_KEY, or give --key.`);
  }
  if (!URL.canParse(url)) throw new CliFailure(`${url} is no address.`);
  const { features, services } = new Faregate({ url, apiKey: key, fetch: io.fetch });
  const found: Evaluable[] = [];
  try {
    for (let page = 1, isLast = false; !isLast; page += 1) {
      const listed = await features.list({ page, limit: PAGE });
      for (const { info, service } of listed) if (isEvaluable(info)) found.push({ service, name: info.name });
      isLast = listed.length < PAGE;
    }
    const rates: Rated[] = [];
    for (const service of new Set(found.map((each) => each.service))) {
      const { limits } = await services.offer(service);
      for (const { name: limit, rates: costs } of limits)
        if (costs !== undefined) rates.push({ service, limit, units: costs.map(({ unit }) => unit) });
    }
    return { features: found, rates };
  } catch (error) {
    if (!(error instanceof ServiceRequestError)) throw error;
    throw new CliFailure(`${url}: ${error.message}`, { cause: error });
  }
}

/** Joins the units of limits by their ids. Undefined services select all. */
function unitsOf(rated: readonly Rated[], services: readonly string[] | undefined): ReadonlyMap<string, Set<string>> {
  const wanted = services && new Set(services.map((name) => name.toLowerCase()));
  const units = new Map<string, Set<string>>();
  for (const { service, limit, units: own } of rated) {
    const key = service.toLowerCase();
    if (wanted?.has(key) === false) continue;
    const id = `${key}-${limit}`;
    units.set(id, new Set([...(units.get(id) ?? []), ...own]));
  }
  return units;
}

/**
 * Selects the features of these services, ignoring case; undefined selects all.
 * @throws CliFailure for an unknown service.
 */
function chosen(found: readonly Evaluable[], services: readonly string[] | undefined): readonly Evaluable[] {
  if (services === undefined) return found;
  const wanted = new Set(services.map((name) => name.toLowerCase()));
  const present = new Map(found.map(({ service }) => [service.toLowerCase(), service]));
  for (const name of wanted) {
    if (present.has(name)) continue;
    const names = [...present.values()].join(", ");
    throw new CliFailure(`No service ${name} with features; there is ${names === "" ? "none" : names}.`);
  }
  return found.filter(({ service }) => wanted.has(service.toLowerCase()));
}

/** Sorted, so that reordering a pricing leaves the file unchanged. */
function declaration(ids: ReadonlySet<string>, units: ReadonlyMap<string, ReadonlySet<string>>): string {
  const lines = [...ids].sort().map((id) => `    ${JSON.stringify(id)}: true;\n`);
  const rated = [...units.keys()].sort().map((id) => {
    const names = [...(units.get(id) ?? [])].sort().map((unit) => JSON.stringify(unit));
    return `    ${JSON.stringify(id)}: ${names.join(" | ")};\n`;
  });
  const limits = rated.length === 0 ? "" : `  interface LimitUnits {\n${rated.join("")}  }\n`;
  return `/* Written by \`faregate types\`: do not edit. */
import "faregate/client";

declare module "faregate/client" {
  interface FeatureIds {
${lines.join("")}  }
${limits}}
`;
}

async function compare(out: string, text: string, io: Io): Promise<number> {
  const present = await io.readFile(out);
  // Git may convert line endings on checkout.
  if (present?.replaceAll("\r\n", "\n") === text) return EXIT.done;
  io.err(
    `${out} ${present === undefined ? "does not exist" : "is out of date"}: run faregate types without --check.\n`,
  );
  return EXIT.no;
}
