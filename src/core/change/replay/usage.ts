import { sum } from "../../exact.ts";
import { add, type Balances, type ReplayedLevel } from "./balances.ts";
import type { RecordedTerms } from "./record.ts";

type LevelName = Pick<ReplayedLevel, "serviceId" | "limitName">;

/** Balances of one replayed contract by limit id, as decisions read them: with what open holds hold. */
export class ReplayedUsage {
  readonly byId = new Map<string, number>();
  readonly #balances: Balances;
  #services: RecordedTerms["services"] = [];

  constructor(balances: Balances) {
    this.#balances = balances;
  }

  /** Enters new terms, whose services name the limits. Call it when their balances are there. */
  enter({ services }: Pick<RecordedTerms, "services">): void {
    this.#services = services;
    this.read();
  }

  /** Reads all balances again. Call it after resets. */
  read(): void {
    this.byId.clear();
    for (const level of this.#balances.levels.values()) this.#note(level);
  }

  #note(level: ReplayedLevel): void {
    const id = this.idOf(level);
    if (id !== undefined) this.byId.set(id, level.held > 0 ? sum(level.consumed, level.held) : level.consumed);
  }

  /** Adds to a balance, or to what is held of it. */
  change(level: ReplayedLevel, change: { consumed?: number; held?: number }): void {
    if (change.consumed !== undefined) add(level, change.consumed);
    if (change.held !== undefined) level.held = Math.max(0, sum(level.held, change.held));
    this.#note(level);
  }

  /** Returns the id of a limit. Undefined if the contract lacks the service. */
  idOf({ serviceId, limitName }: LevelName): string | undefined {
    const service = this.#services.find((one) => one.serviceId === serviceId);
    return service && `${service.key}-${limitName}`;
  }

  /** Returns the balance of a limit by the name of its service. */
  levelOf({ serviceName, limitName }: { serviceName: string; limitName: string }): ReplayedLevel | undefined {
    const serviceId = this.#services.find(({ key }) => key === serviceName)?.serviceId;
    return serviceId === undefined ? undefined : this.#balances.level(serviceId, limitName);
  }

  /** Returns the service of a feature: the one with the longest name that its id begins with. */
  serviceOf(featureId: string | null): string | undefined {
    let longest: RecordedTerms["services"][number] | undefined;
    for (const service of this.#services) {
      const fits = featureId?.startsWith(`${service.key}-`) === true;
      if (fits && service.key.length > (longest?.key.length ?? 0)) longest = service;
    }
    return longest?.serviceId;
  }
}
