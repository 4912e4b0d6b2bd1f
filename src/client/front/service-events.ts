import { notifyAll } from "../listeners.ts";

/** Details of a pricing event. Unknown keys of newer servers are passed through. */
export interface PricingEventDetails {
  readonly serviceName: string;
  /** Absent if the event concerns the whole service. */
  readonly pricingVersion?: string | undefined;
}

/** A message of the channel, as sent. */
export interface EventMessage {
  readonly code: string;
  readonly details: PricingEventDetails;
}

/** Events and the arguments of their listeners. Source: contract clients §1.9. */
export interface ServiceEventListeners {
  /** The channel is open, for the first time or again. After a gap, events may have been missed. */
  synchronized: () => void;
  pricing_created: (details: PricingEventDetails) => void;
  pricing_archived: (details: PricingEventDetails) => void;
  pricing_activated: (details: PricingEventDetails) => void;
  /** Name of `pricing_activated` in the published client; the same channel. */
  pricing_actived: (details: PricingEventDetails) => void;
  service_disabled: (details: PricingEventDetails) => void;
  /** A failed connection attempt, a malformed message, or a failed refresh. */
  error: (error: Error) => void;
}

/** Names that `on` and `off` accept. */
export type ServiceEvents = keyof ServiceEventListeners;

/** A listener of any event. */
export type ServiceEventListener = ServiceEventListeners[ServiceEvents];

/** Listeners of one client, per event. The same callback counts once per event, under any of its spellings. */
export class ServiceEventRegistry {
  private readonly callbacks = new Map<string, Set<ServiceEventListener>>();

  constructor() {
    const names = ["synchronized", "pricing_created", "pricing_archived", "service_disabled", "error"] as const;
    for (const name of names satisfies readonly ServiceEvents[]) this.callbacks.set(name, new Set());
    const activated = new Set<ServiceEventListener>();
    this.callbacks.set("pricing_activated", activated).set("pricing_actived", activated);
  }

  /**
   * Adds a listener.
   * @throws Error for an unknown event, or if the callback is not a function.
   * @returns a function that removes it.
   */
  on(event: string, callback: ServiceEventListener): () => void {
    if (typeof callback !== "function") throw new Error(`Callback for event '${event}' must be a function.`);
    const callbacks = this.callbacks.get(event);
    if (callbacks === undefined) throw new Error(`Event '${event}' is not recognized.`);
    callbacks.add(callback);
    return () => this.off(event, callback);
  }

  /** Removes the callback, all callbacks of the event, or all callbacks. */
  off(event?: string, callback?: ServiceEventListener): void {
    // Empty the sets instead of dropping them: an emit in progress must not call removed listeners.
    for (const [name, set] of this.callbacks) {
      if (event !== undefined && name !== event) continue;
      if (callback === undefined) set.clear();
      else set.delete(callback);
    }
  }

  /** Calls the listeners. Errors of listeners go to the console. */
  emit(event: ServiceEvents, ...args: [] | [unknown]): void {
    notifyAll(callable(this.callbacks.get(event)), ...args);
  }

  /** Calls one listener, unless it has been removed. */
  emitTo(event: ServiceEvents, callback: ServiceEventListener): void {
    if (this.callbacks.get(event)?.has(callback)) notifyAll(callable(new Set([callback])));
  }
}

/**
 * Type guarantee: the constructor makes a set for each event, `on` of the client types a callback by its event, and every
 * `emit` passes that event's argument.
 */
function callable(callbacks: Set<ServiceEventListener> | undefined): Set<(...args: unknown[]) => void> {
  return callbacks as Set<(...args: unknown[]) => void>;
}
