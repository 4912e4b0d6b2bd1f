import { StartupProblem } from "../../db/postgres/connect.ts";
import type { Tracing } from "../../http/tracing.ts";
import type { Config } from "../process/config.ts";

/** Time limit for flushing spans at shutdown. */
const LAST_WORDS_MS = 2000;

/**
 * Sends one span per request to OTEL_EXPORTER_OTLP_ENDPOINT, by OpenTelemetry's own packages, which read the exporter's
 * other OTEL_… variables. Without that variable it returns undefined and loads none of them. Spans that cannot be sent
 * are dropped: no request waits for them.
 * @throws StartupProblem when the optional packages are not installed.
 */
export async function openTracing(
  config: Config,
  serviceName: string,
): Promise<{ tracing: Tracing; close(): Promise<void> } | undefined> {
  if (config.OTEL_EXPORTER_OTLP_ENDPOINT === undefined) return undefined;
  const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace, sdk, exporter, resources } = await load();
  const provider = new sdk.TracerProvider({
    resource: resources
      .defaultResource()
      .merge(resources.resourceFromAttributes({ "service.name": config.OTEL_SERVICE_NAME ?? serviceName })),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter: new exporter.OTLPTraceExporter() })],
  });
  const tracer = provider.getTracer("faregate");
  return {
    tracing: {
      start: (method, caller) => {
        const parent =
          caller === undefined
            ? ROOT_CONTEXT
            : trace.setSpanContext(ROOT_CONTEXT, {
                traceId: caller.traceId,
                spanId: caller.spanId,
                traceFlags: caller.flags,
                isRemote: true,
              });
        const span = tracer.startSpan(
          method,
          { kind: SpanKind.SERVER, attributes: { "http.request.method": method } },
          parent,
        );
        return {
          id: span.spanContext().traceId,
          end: ({ route, status, requestId }) => {
            span.updateName(`${method} ${route}`);
            // Report the route pattern, never the path: paths contain user data.
            span.setAttributes({
              "http.route": route,
              "http.response.status_code": status,
              "faregate.request_id": requestId,
            });
            if (status >= 500) span.setStatus({ code: SpanStatusCode.ERROR });
            span.end();
          },
        };
      },
    },
    close: () =>
      Promise.race([
        provider.shutdown().catch(() => {}),
        new Promise<void>((resolve) => setTimeout(resolve, LAST_WORDS_MS)),
      ]),
  };
}

async function load() {
  try {
    const [api, sdk, exporter, resources] = await Promise.all([
      import("@opentelemetry/api"),
      import("@opentelemetry/sdk-trace"),
      import("@opentelemetry/exporter-trace-otlp-http"),
      import("@opentelemetry/resources"),
    ]);
    return { ...api, sdk, exporter, resources };
  } catch (cause) {
    throw new StartupProblem(
      "OTEL_EXPORTER_OTLP_ENDPOINT is set, but OpenTelemetry's packages are not installed: run npm ci without --omit=optional.",
      { cause },
    );
  }
}
