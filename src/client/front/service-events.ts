import { notifyAll } from "../listeners.ts";

/** Details of a pricing event. Unknown keys of newer servers are passed through. */
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

/** The listeners of one client, by event. The same callback counts once an event, whatever spelling it was given under. */
export class ServiceEventRegistry {
  private readonly callbacks = new Map<string, Set<ServiceEventListener>>();

  constructor() {
    const names = ["synchronized", "pricing_created", "pricing_archived", "service_disabled", "error"] as const;
    for (const name of names satisfies readonly ServiceEvents[]) this.callbacks.set(name, new Set());
    const activated = new Set<ServiceEventListener>();
    this.callbacks.set("pricing_activated", activated).set("pricing_actived", activated);
  }

  /** @throws Error when the callback is no function or for an unknown event. @returns the undo. */
  on(event: string, callback: ServiceEventListener): () => void {
    if (typeof callback !== "function") throw new Error(`Callback for event '${event}' must be a function.`);
    const callbacks = this.callbacks.get(event);
    if (callbacks === undefined) throw new Error(`Event '${event}' is not recognized.`);
    callbacks.add(callback);
    return () => this.off(event, callback);
  }

  /** Removes that callback, all of the event, or everything. */
  off(event?: string, callback?: ServiceEventListener): void {
    // The sets are emptied, not only forgotten: an emit under way must not call those removed meanwhile.
    for (const [name, set] of this.callbacks) {
      if (event !== undefined && name !== event) continue;
      if (callback === undefined) set.clear();
      else set.delete(callback);
    }
  }

  /** Calls the listeners; one that throws is reported to the console. */
  emit(event: ServiceEvents, ...args: [] | [unknown]): void {
    notifyAll(callable(this.callbacks.get(event)), ...args);
  }

  /** Calls one listener, unless it has been removed. */
  emitTo(event: ServiceEvents, callback: ServiceEventListener): void {
    if (this.callbacks.get(event)?.has(callback)) notifyAll(callable(new Set([callback])));
  }
}

/** Guarantee: `on` of the client types a callback by its event, and every `emit` gives that event its argument. */
function callable(callbacks: Set<ServiceEventListener> = new Set()): Set<(...args: unknown[]) => void> {
  return callbacks as Set<(...args: unknown[]) => void>;
}
