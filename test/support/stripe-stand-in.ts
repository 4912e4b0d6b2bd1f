import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** A stand-in of the endpoints of Stripe that create sessions of a checkout and of the customer portal. */
export interface StripeStandIn {
  port: string;
  /** Bodies of created sessions, as forms. */
  sessions: URLSearchParams[];
  close(): void;
}

/** Starts the stand-in on a free port. */
export async function startStripeStandIn(): Promise<StripeStandIn> {
  const sessions: URLSearchParams[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text: string) => (body += text));
    request.on("end", () => {
      const isKnown = ["/v1/checkout/sessions", "/v1/billing_portal/sessions"].includes(request.url ?? "");
      if (isKnown) sessions.push(new URLSearchParams(body));
      const session = { id: `cs_${sessions.length}`, url: `https://checkout.example/cs_${sessions.length}` };
      response.writeHead(isKnown ? 200 : 404, { "content-type": "application/json" });
      response.end(JSON.stringify(isKnown ? session : { error: { message: "Unknown endpoint" } }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: String((server.address() as AddressInfo).port), sessions, close: () => server.close() };
}
