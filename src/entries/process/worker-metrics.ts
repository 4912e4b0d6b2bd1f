/*
 * Metrics of several workers behind one port. A scrape reaches one of them, which asks the primary process for those of all.
 */

/** IPC messages about metrics, of a worker to the primary process. */
export type WorkerMessage =
  | { type: "scrape"; id: string; worker: number }
  | { type: "collected"; id: string; worker: number; text: string };

/** IPC messages about metrics, of the primary process to a worker. */
type PrimaryMessage = { type: "collect"; id: string } | { type: "metrics"; id: string; text: string };

/** A scrape that the primary process, which waits for workers, does not answer gets the worker's own metrics. */
const WAIT_MS = 4000;

/** Returns the number of this worker, which the primary process has set. Undefined in other processes. */
export function workerNumber(): number | undefined {
  const number = process.env["WORKER_NUMBER"];
  return number === undefined ? undefined : Number(number);
}

/** Returns the metrics of all workers. In a process that is no worker: `own`. */
export function metricsOfAll(own: () => Promise<string>): () => Promise<string> {
  const worker = workerNumber();
  if (worker === undefined) return own;
  const waiting = new Map<string, (text: string) => void>();
  const send = (message: WorkerMessage) => {
    if (process.connected) process.send?.(message, undefined, undefined, () => {});
  };
  process.on("message", (message: PrimaryMessage) => {
    if (message.type === "metrics") waiting.get(message.id)?.(message.text);
    if (message.type === "collect") {
      void own().then((text) => send({ type: "collected", id: message.id, worker, text }));
    }
  });
  return async () => {
    // Deno closes the channel when the primary process sends SIGTERM.
    if (!process.connected) return own();
    const id = crypto.randomUUID();
    const merged = await new Promise<string | undefined>((resolve) => {
      const late = setTimeout(() => resolve(undefined), WAIT_MS);
      waiting.set(id, (text) => {
        clearTimeout(late);
        resolve(text);
      });
      send({ type: "scrape", id, worker });
    });
    waiting.delete(id);
    return merged ?? own();
  };
}

/** Merges metrics in Prometheus' text format: each sample gets the label `worker`, each metric one heading. */
export function mergeMetrics(texts: ReadonlyMap<number, string>): string {
  const metrics = new Map<string, { heading: string[]; samples: string[] }>();
  for (const [worker, text] of [...texts].toSorted(([a], [b]) => a - b)) {
    let current: { heading: string[]; samples: string[] } | undefined;
    let isKnown = false;
    for (const line of text.split("\n")) {
      const [, name] = /^# HELP (\S+)/.exec(line) ?? [];
      if (name !== undefined) {
        isKnown = metrics.has(name);
        current = metrics.get(name) ?? { heading: [], samples: [] };
        metrics.set(name, current);
      }
      if (line.startsWith("#")) {
        if (!isKnown) current?.heading.push(line);
      } else if (line !== "") current?.samples.push(labelled(line, worker));
    }
  }
  const count = ["# HELP faregate_workers REST processes that answered.", "# TYPE faregate_workers gauge"];
  const lines = [...metrics.values()].flatMap(({ heading, samples }) => [...heading, ...samples]);
  return [...count, `faregate_workers ${texts.size}`, ...lines, ""].join("\n");
}

const labelled = (sample: string, worker: number) =>
  sample.replace(/^([A-Za-z_:][\w:]*)(\{)?/, (_, name: string, brace: string | undefined) =>
    brace === undefined ? `${name}{worker="${worker}"}` : `${name}{worker="${worker}",`,
  );
