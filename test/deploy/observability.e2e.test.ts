import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parser } from "@prometheus-io/lezer-promql";
import { load } from "js-yaml";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { REST, type RunningServer, startEventServer, startRestServer } from "../support/event-server.ts";
import { DEPLOY } from "./manifests.ts";

/*
 * Checks the alert rules and the dashboard with Prometheus' own PromQL grammar, against metrics that real processes
 * export.
 */

interface Rule {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; action: string };
}
interface Panel {
  id: number;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets: { expr: string }[];
}

const TOKEN = "metrics-token-of-the-tests";
const read = (path: string) => readFileSync(join(DEPLOY, path), "utf8");
const { groups } = load(read("prometheus/alerts.yaml")) as { groups: { name: string; rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const { panels } = JSON.parse(read("grafana/faregate.json")) as { panels: Panel[] };
const expressions: [where: string, expression: string][] = [
  ...rules.map(({ alert, expr }): [string, string] => [alert, expr]),
  ...panels.flatMap(({ title, targets }) => targets.map(({ expr }): [string, string] => [title, expr])),
];

/** Parses PromQL and lists the metrics that it names. */
function readPromql(text: string): { isValid: boolean; metrics: string[] } {
  let isValid = true;
  const metrics: string[] = [];
  parser.parse(text).iterate({
    enter: ({ type, from, to, node }) => {
      if (type.isError) isValid = false;
      if (type.name === "Identifier" && node.parent?.type.name === "VectorSelector") metrics.push(text.slice(from, to));
    },
  });
  return { isValid, metrics };
}

let database: TestDatabase;
let servers: RunningServer[] = [];
/** Metric types by name, as REST process and event server export them. */
const exported = new Map<string, string>();

beforeAll(async () => {
  database = await createTestDatabase();
  const environment = { METRICS_TOKEN: TOKEN };
  servers = [await startRestServer(REST, database.url, environment), await startEventServer(database.url, environment)];
  for (const { url } of servers) {
    const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${TOKEN}` } });
    for (const [, name, kind] of (await answer.text()).matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
      exported.set(name ?? "", kind ?? "");
    }
  }
});
afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()));
  await database.drop();
});

describe("every expression of the alerts and the dashboard", () => {
  it.each(expressions)("%s: is PromQL over metrics that are exported, each used as what it is", (_, expression) => {
    const { isValid, metrics } = readPromql(expression);
    expect(isValid).toBe(true);
    expect(metrics.length).toBeGreaterThan(0);
    for (const metric of metrics) {
      // Prometheus creates `up` itself, for each target.
      if (metric === "up") continue;
      const base = metric.replace(/_(bucket|sum|count)$/, "");
      const kind = exported.get(metric) ?? (exported.get(base) === "histogram" ? "histogram" : undefined);
      expect(kind, `${metric} is not exported`).toBeDefined();
      // A raw counter only reflects uptime; a gauge has no rate.
      const isRate = new RegExp(`(rate|increase)\\(\\s*${metric}`).test(expression);
      expect(isRate, metric).toBe(kind !== "gauge");
    }
  });

  it("fails the check with a mistake in it, or with a metric that no process exports", () => {
    expect(readPromql("sum(rate(faregate_ready[5m])").isValid).toBe(false);
    expect(readPromql("rate(faregate_ready[5x])").isValid).toBe(false);
    expect(readPromql("sum by (job) (faregate_nothing)").metrics).toEqual(["faregate_nothing"]);
    expect(exported.has("faregate_nothing")).toBe(false);
  });

  it("together use every metric of ours", () => {
    const used = new Set(expressions.flatMap(([, text]) => readPromql(text).metrics));
    const unused = [...exported].filter(
      ([name]) => !used.has(name) && ![...used].some((metric) => metric.startsWith(`${name}_`)),
    );
    expect(unused).toEqual([]);
  });
});

it("each alert has a unique name, a severity, a summary and instructions", () => {
  expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  for (const { alert, labels, annotations, ...rule } of rules) {
    expect(alert).toMatch(/^Faregate[A-Z]\w+$/);
    expect(["page", "ticket"]).toContain(labels.severity);
    expect(annotations.summary.length, alert).toBeGreaterThan(20);
    expect(annotations.action.length, alert).toBeGreaterThan(20);
    expect(rule.for ?? "0s").toMatch(/^\d+[smh]$/);
    expect(Object.keys(rule).filter((field) => !["expr", "for"].includes(field))).toEqual([]);
  }
});

it("the dashboard's panels have unique ids and do not overlap", () => {
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const taken = new Set<string>();
  for (const { title, gridPos } of panels) {
    expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24);
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
        expect(taken.has(`${x} ${y}`), title).toBe(false);
        taken.add(`${x} ${y}`);
      }
    }
  }
});
