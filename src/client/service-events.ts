import type { PublicEvent } from "../core/event-messages.ts";
import { createListeners, type Listeners } from "./listeners.ts";
import { isObject, ownValue } from "./pricing-token.ts";

/** What an event says. Unknown keys of newer servers are passed through. */
export interface PricingEventDetails {
  readonly serviceName: string;
  /** Absent when the whole service is meant. */
  readonly pricingVersion?: string | undefined;
}

/** A message of the channel as it goes over the wire. */
export interface EventMessage {
  readonly code: string;
  readonly details: PricingEventDetails;
}

/** Each event with what its listeners are called with. Source: contract clients §1.9. */
export interface ServiceEventListeners {
  /** The channel is open, for the first time or again; after a gap, events may have been missed. */
  synchronized: () => void;
  pricing_created: (details: PricingEventDetails) => void;
  pricing_archived: (details: PricingEventDetails) => void;
  pricing_activated: (details: PricingEventDetails) => void;
  /** The name under which published clients know `pricing_activated`: the same channel. */
  pricing_actived: (details: PricingEventDetails) => void;
  service_disabled: (details: PricingEventDetails) => void;
  /** A failed attempt to connect, a message that is none, a failed refresh. */
  error: (error: Error) => void;
}

/** The names that `on` and `off` know. */
export type ServiceEvents = keyof ServiceEventListeners;

/** A listener of any event. */
export type ServiceEventListener = ServiceEventListeners[ServiceEvents];

type PricingEvent = Exclude<ServiceEvents, "synchronized" | "error" | "pricing_actived">;

const WIRE_NAMES: Record<PublicEvent["code"] | "PRICING_ACTIVATED", PricingEvent> = {
  PRICING_CREATED: "pricing_created",
  PRICING_ARCHIVED: "pricing_archived",
  PRICING_ACTIVED: "pricing_activated",
  PRICING_ACTIVATED: "pricing_activated",
  SERVICE_DISABLED: "service_disabled",
};

/** What a message means; undefined for a code of a newer server. @throws Error when it is no message at all. */
export function readMessage(message: unknown): { event: PricingEvent; details: PricingEventDetails } | undefined {
  if (!isObject(message) || typeof message["code"] !== "string") throw new Error("Not a message of the event channel.");
  const event = ownValue(WIRE_NAMES, message["code"]);
  const { details } = message;
  if (event === undefined) return undefined;
  if (!isDetails(details)) throw new Error(`A message ${message["code"]} without details.`);
  return { event, details };
}

function isDetails(value: unknown): value is PricingEventDetails {
  return isObject(value) && typeof value["serviceName"] === "string";
}

interface Channel {
  readonly listeners: Listeners<unknown[]>;
  readonly undos: Map<ServiceEventListener, () => void>;
}

/** The listeners of one client, by event. The same callback counts once an event, whatever spelling it was given under. */
export class ServiceEventRegistry {
  private readonly channels = new Map<string, Channel>();

  constructor() {
    for (const event of ["synchronized", "error", ...Object.values(WIRE_NAMES)]) {
      this.channels.set(event, { listeners: createListeners<unknown[]>(), undos: new Map() });
    }
  }

  /** @throws Error for an unknown event or when the callback is no function. @returns the undo. */
  on(event: string, callback: ServiceEventListener): () => void {
    const channel = this.channels.get(canonical(event));
    if (channel === undefined) throw new Error(`Event '${String(event)}' is not recognized.`);
    if (typeof callback !== "function") throw new Error(`Callback for event '${event}' must be a function.`);
    const { listeners, undos } = channel;
    if (!undos.has(callback)) undos.set(callback, listeners.add(callable(callback)));
    return () => this.off(event, callback);
  }

  /** Removes that callback, all of the event, or everything. */
  off(event?: string, callback?: ServiceEventListener): void {
    for (const [name, { undos }] of this.channels) {
      if (event !== undefined && name !== canonical(event)) continue;
      for (const [listener, undo] of undos) {
        if (callback !== undefined && callback !== listener) continue;
        undo();
        undos.delete(listener);
      }
    }
  }

  /** Calls the listeners; one that throws is reported to the console. */
  emit(event: PricingEvent | "synchronized" | "error", ...args: [] | [PricingEventDetails | Error]): void {
    this.channels.get(event)?.listeners.notify(...args);
  }

  /** Whether this callback is still to be called. */
  has(event: string, callback: ServiceEventListener): boolean {
    return this.channels.get(canonical(event))?.undos.has(callback) === true;
  }
}

/** Guarantee: `on` of the client types a callback by its event, and every `emit` gives that event its argument. */
function callable(callback: ServiceEventListener): (...args: unknown[]) => void {
  return callback as (...args: unknown[]) => void;
}

function canonical(event: string): string {
  return event === "pricing_actived" ? "pricing_activated" : event;
}
