/** Told of each request, for whoever follows requests from service to service. */
export interface Tracing {
  /** The request's part of its caller's trace, or the beginning of a new one. */
  start(method: string, caller: TraceContext | undefined): Trace;
}

export interface Trace {
  /** 32 hex digits. */
  id: string;
  end(answer: { route: string; status: number; requestId: string }): void;
}

/** Where a caller stands in its trace. Source: https://www.w3.org/TR/trace-context/#traceparent-header */
export interface TraceContext {
  traceId: string;
  spanId: string;
  flags: number;
}

/** What header traceparent says; undefined when it is not one. */
export function traceContextOf(traceparent: string | undefined): TraceContext | undefined {
  if (traceparent === undefined) return undefined;
  const [, traceId, spanId, flags] = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})$/.exec(traceparent) ?? [];
  return traceId === undefined || spanId === undefined
    ? undefined
    : { traceId, spanId, flags: Number.parseInt(flags ?? "0", 16) };
}
