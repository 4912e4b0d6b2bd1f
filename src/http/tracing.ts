/** Creates one span per request, for distributed tracing. */
export interface Tracing {
  /** Continues the caller's trace, or starts a new one. */
  start(method: string, caller: TraceContext | undefined): Trace;
}

export interface Trace {
  /** 32 hex digits. */
  id: string;
  end(answer: { route: string; status: number; requestId: string }): void;
}

/** A caller's span. Source: https://www.w3.org/TR/trace-context/#traceparent-header */
export interface TraceContext {
  traceId: string;
  spanId: string;
  flags: number;
}

/** Parses the header traceparent. Undefined if it is invalid. */
export function traceContextOf(traceparent: string | undefined): TraceContext | undefined {
  if (traceparent === undefined) return undefined;
  const [, traceId, spanId, flags] = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})$/.exec(traceparent) ?? [];
  return traceId === undefined || spanId === undefined
    ? undefined
    : { traceId, spanId, flags: Number.parseInt(flags ?? "0", 16) };
}
