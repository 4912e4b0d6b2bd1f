import { z } from "zod";
import type { Operation } from "./operation.ts";

const shownText = z.string().min(1).max(255);
export const testEvent = z.object({ serviceName: shownText, pricingVersion: shownText }).meta({ id: "TestEvent" });

export const eventStatus = z.strictObject({ status: z.string() }).meta({ id: "EventStatus" });
export const eventSent = z.strictObject({ success: z.literal(true), message: z.string() }).meta({ id: "EventSent" });

/** Events over HTTP. Source: contract features-events §9. */
export const eventOperations: readonly Operation[] = [
  {
    id: "showEventStatus",
    group: "Events",
    method: "GET",
    path: "/events/status",
    summary: "Show the event channel's state",
    description: "Returns a fixed sentence, for compatibility. `/ready` of the event server reports its health.",
    answers: {
      200: { schema: eventStatus, example: { status: "The WebSocket event service is active" } },
    },
  },
  {
    id: "showEventPage",
    group: "Events",
    method: "GET",
    path: "/events/client",
    summary: "Open a page of live events",
    description: "Returns a page that lists the channel's messages as they arrive.",
    mediaType: "text/html",
    answers: { 200: { schema: z.string(), example: "<!doctype html>" } },
  },
  {
    id: "streamEvents",
    group: "Events",
    method: "GET",
    path: "/events/stream",
    summary: "Stream events",
    description:
      "Streams events as Server-Sent Events, and resumes after the header Last-Event-ID. An organization key gets its organization's events; without a key there are only public ones. With `changes=true` an organization key gets no events but the ids of contracts that changed, for caches: `event: change` with the contracts (null: any), and `event: beat` with the moment before which every commit has been sent.",
    query: z.object({
      organizationId: z.string().optional().describe("With a user key: the organization"),
      changes: z.boolean().default(false).describe("Streams changed contracts instead of events"),
      lastEventId: z.int().optional().describe("Resume position, for clients that cannot send the header"),
    }),
    mediaType: "text/event-stream",
    answers: { 200: { schema: z.string(), example: "retry: 3000\nid: 7\n\n" } },
    errors: {
      404: "INVALID DATA: Invalid organization ID",
      503: "Changes cannot be followed here: connect to Node, Bun or Deno",
    },
  },
  {
    id: "sendTestEvent",
    group: "Events",
    method: "POST",
    path: "/events/test-event",
    summary: "Send a test event",
    description: "Sends PRICING_ARCHIVED to connected sockets, to try clients out; at most ten per minute.",
    query: z.object({
      organizationId: z.string().optional().describe("With an ADMIN's key: the sending organization"),
    }),
    body: { schema: testEvent, example: { serviceName: "Tasker", pricingVersion: "1.0.0" } },
    answers: { 200: { schema: eventSent, example: { success: true, message: "Event sent successfully" } } },
    errors: { 404: "Cannot POST /api/v1/events/test-event" },
  },
];
