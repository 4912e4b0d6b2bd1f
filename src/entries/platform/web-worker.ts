/*
 * Entry of a web worker; see web-workers.ts. Its name is the URL of a module whose default export answers tasks. Reports
 * that it is ready, then answers each task.
 */

/** The part of a worker's global scope that is used. Deno and TypeScript's library declare `self` differently. */
interface WorkerScope {
  readonly name: string;
  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
  postMessage(message: unknown): void;
}

const scope = self as unknown as WorkerScope;
const { default: run } = (await import(scope.name)) as { default: (task: unknown) => unknown };

scope.addEventListener("message", ({ data }) => {
  try {
    scope.postMessage({ value: run(data) });
  } catch (error) {
    scope.postMessage({ error: error instanceof Error ? error.message : String(error) });
  }
});
scope.postMessage("ready");
