import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { load, loadAll, YAML11_SCHEMA } from "js-yaml";

/** Paths of the repository and of src/deploy. */
export const ROOT = resolve(import.meta.dirname, "../..");
export const DEPLOY = resolve(ROOT, "src/deploy");
export const MANIFESTS = ["migrate.yaml", "rest.yaml", "events.yaml", "network-policy.yaml"];

/** The parts of a manifest that the tests read. */
export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: { name: string };
  spec: { template: { spec: { containers: [Container] } } };
}
interface Probe {
  httpGet: { path: string };
}
interface Container {
  command: string[];
  ports?: { containerPort: number }[];
  livenessProbe?: Probe;
  readinessProbe?: Probe;
}

export const read = (file: string): string => readFileSync(resolve(DEPLOY, file), "utf8");

/** Parses the documents of a manifest file. */
export const manifestsOf = (file: string): Manifest[] => loadAll(read(`kubernetes/${file}`)) as Manifest[];

/** Returns the container of the Deployment or Job in a manifest file. */
export function containerOf(file: string): Container {
  const workload = manifestsOf(file).find(({ kind }) => kind === "Deployment" || kind === "Job");
  if (workload === undefined) throw new Error(`${file} runs nothing`);
  return workload.spec.template.spec.containers[0];
}

/** A service of the compose file, with its YAML anchors resolved. */
export interface ComposeService {
  command?: string[];
  healthcheck?: { test?: string[] };
  environment: Record<string, string>;
}
export function composeServices(): Record<string, ComposeService> {
  const { services } = load(read("compose.yaml"), { schema: YAML11_SCHEMA }) as {
    services: Record<string, ComposeService>;
  };
  return services;
}

/** Returns the instructions of one Dockerfile stage; undefined selects the final stage, which has no name. */
export function stageOf(name: string | undefined): { instruction: string; rest: string }[] {
  const instructions = read("Dockerfile")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => ({ instruction: line.split(" ")[0] ?? "", rest: line.slice(line.indexOf(" ") + 1) }));
  const starts = instructions.flatMap(({ instruction, rest }, at) => (instruction === "FROM" ? [{ at, rest }] : []));
  const found = starts.findIndex(({ rest }) => / AS (.+)$/.exec(rest)?.[1] === name);
  return instructions.slice((starts[found]?.at ?? -1) + 1, starts[found + 1]?.at);
}

/** Parses an instruction in exec form. */
export const words = (text: string): string[] => JSON.parse(text.slice(text.indexOf("["))) as string[];
