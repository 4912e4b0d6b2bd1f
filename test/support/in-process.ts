import type { TestApi } from "./api.ts";

/** Calls of an application in process, as a back end's `fetch`, with a line that tests can cut. */
export interface InProcess {
  fetch: typeof fetch;
  /** Calls so far by path below /api/v1, without ids. */
  calls: { snapshots: number; evaluations: number; leases: number; streams: number };
  /** Resets the counts. */
  forget(): void;
  /** Ends every stream, and rejects further calls. */
  cut(): void;
  restore(): void;
  /** Delays or changes answers of a path. Undefined: passes them on. */
  onAnswer: ((path: string, answer: Response) => Promise<Response>) | undefined;
}

export const ORIGIN = "http://faregate.test";

/** Connects back-end clients with `api`, without a server. */
export function inProcess(api: TestApi): InProcess {
  const streams = new Set<ReadableStreamDefaultController<Uint8Array>>();
  let isCut = false;
  const unreachable = () => new TypeError("fetch failed");
  const calls = { snapshots: 0, evaluations: 0, leases: 0, streams: 0 };
  const passed = (body: ReadableStream<Uint8Array>) => {
    const reader = body.getReader();
    let own: ReadableStreamDefaultController<Uint8Array> | undefined;
    return new ReadableStream<Uint8Array>({
      start: (controller) => {
        own = controller;
        streams.add(controller);
      },
      pull: async (controller) => {
        const { done, value } = await reader.read();
        if (!streams.has(controller)) return;
        if (done) {
          streams.delete(controller);
          controller.close();
        } else controller.enqueue(value);
      },
      cancel: async () => {
        if (own !== undefined) streams.delete(own);
        await reader.cancel();
      },
    });
  };
  const line: InProcess = {
    calls,
    forget: () => Object.assign(calls, { snapshots: 0, evaluations: 0, leases: 0, streams: 0 }),
    cut: () => {
      isCut = true;
      for (const controller of streams) controller.error(unreachable());
      streams.clear();
    },
    restore: () => {
      isCut = false;
    },
    onAnswer: undefined,
    fetch: async (input, init) => {
      const path = String(input).slice(ORIGIN.length);
      if (path.includes("/snapshot")) calls.snapshots += 1;
      if (path.includes("/leases")) calls.leases += 1;
      else if (path.includes("/features/")) calls.evaluations += 1;
      if (path.includes("/events/stream")) calls.streams += 1;
      if (isCut) throw unreachable();
      const { signal, ...request } = init ?? {};
      const answer = await api.app.request(path, request);
      signal?.throwIfAborted();
      if (path.includes("/events/stream") && answer.ok && answer.body !== null) {
        const response = new Response(passed(answer.body), { status: answer.status, headers: answer.headers });
        const end = () => {
          for (const controller of streams) controller.error(unreachable());
          streams.clear();
        };
        signal?.addEventListener("abort", end, { once: true });
        return response;
      }
      return line.onAnswer === undefined ? answer : line.onAnswer(path, answer);
    },
  };
  return line;
}
