/*
 * Metrics in the text format of Prometheus. The client library does not run on every runtime.
 * Source: https://prometheus.io/docs/instrumenting/exposition_formats/
 */

/** Upper bounds of the buckets of durations, in seconds. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5] as const;

/** One metric: a number, or one number per set of labels. */
export interface Metric {
  name: string;
  help: string;
  type: "counter" | "gauge";
  value: number | readonly (readonly [labels: Readonly<Record<string, string>>, value: number])[];
}

/** Counts requests by method, route pattern and status. Recording one request costs two map lookups. */
export interface RequestMetrics {
  record(method: string, route: string, status: number, seconds: number): void;
  /** Formats the counts so far. */
  render(): string;
}

interface Series {
  method: string;
  route: string;
  statuses: Map<number, number>;
  /** One count per bound, and a last one for slower requests. */
  buckets: number[];
  seconds: number;
}

export function createRequestMetrics(): RequestMetrics {
  const byRoute = new Map<string, Map<string, Series>>();
  const seriesOf = (method: string, route: string): Series => {
    let methods = byRoute.get(route);
    if (methods === undefined) byRoute.set(route, (methods = new Map()));
    let series = methods.get(method);
    if (series === undefined) {
      const buckets = Array.from({ length: BUCKETS.length + 1 }, () => 0);
      methods.set(method, (series = { method, route, statuses: new Map(), buckets, seconds: 0 }));
    }
    return series;
  };
  return {
    record: (method, route, status, seconds) => {
      const series = seriesOf(method, route);
      series.statuses.set(status, (series.statuses.get(status) ?? 0) + 1);
      series.seconds += seconds;
      let slot = 0;
      while (slot < BUCKETS.length && seconds > (BUCKETS[slot] ?? 0)) slot += 1;
      series.buckets[slot] = (series.buckets[slot] ?? 0) + 1;
    },
    render: () => {
      const all = [...byRoute.values()].flatMap((methods) => [...methods.values()]);
      const counts = all.flatMap(({ method, route, statuses }) =>
        [...statuses].map(([status, value]) => [{ method, route, status: String(status) }, value] as const),
      );
      const lines = all.flatMap(({ method, route, buckets, seconds }) => {
        const name = "faregate_http_request_duration_seconds";
        let below = 0;
        const counted = [...BUCKETS.map(String), "+Inf"].map((le, i) => {
          below += buckets[i] ?? 0;
          return `${name}_bucket${labelsOf({ method, route, le })} ${below}`;
        });
        const labels = labelsOf({ method, route });
        return [...counted, `${name}_sum${labels} ${seconds}`, `${name}_count${labels} ${below}`];
      });
      return [
        renderMetric({
          name: "faregate_http_requests_total",
          help: "Answers.",
          type: "counter",
          value: counts,
        }).trimEnd(),
        "# HELP faregate_http_request_duration_seconds Time to the answer's head.",
        "# TYPE faregate_http_request_duration_seconds histogram",
        ...lines,
        "",
      ].join("\n");
    },
  };
}

/** Formats one metric, with a final newline. */
export function renderMetric({ name, help, type, value }: Metric): string {
  const samples = typeof value === "number" ? [[{}, value] as const] : value;
  const lines = samples.map(([labels, number]) => `${name}${labelsOf(labels)} ${number}`);
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, ...lines, ""].join("\n");
}

function labelsOf(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

const escaped = (text: string) => text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
