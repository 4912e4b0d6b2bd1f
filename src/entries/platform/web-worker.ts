/*
 * Entry of a web worker; see web-workers.ts. Its name is the URL of a module whose default export answers tasks. Reports
 * that it is ready, then answers each task.
 */
const { default: run } = (await import(self.name)) as { default: (task: unknown) => unknown };

self.addEventListener("message", ({ data }: MessageEvent<unknown>) => {
  try {
    self.postMessage({ value: run(data) });
  } catch (error) {
    self.postMessage({ error: error instanceof Error ? error.message : String(error) });
  }
});
self.postMessage("ready");
