import { sum } from "../../exact.ts";
import { evaluateBoolean } from "../../pricing/evaluate.ts";
import type { EvaluationMode } from "../../pricing/evaluate.ts";
import { Entitled, type ReplaySetting, type SharedTerms } from "./entitled.ts";
import type { RecordedMovement, RecordedTerms } from "./record.ts";

const MODES = [{ server: false }, { server: true }] as const;

/**
 * The contract as it was: its real terms and balances. They tell which expression of a feature a call was decided by, which the
 * ledger does not record. Ignores blocks and holds, which matter to both expressions alike.
 */
export class ActualContract {
  readonly #pricings: ReplaySetting["pricings"];
  readonly #shared: SharedTerms;
  /** By service and limit. */
  readonly #consumed = new Map<string, number>();
  /** The balances by limit id. */
  readonly #usage = new Map<string, number>();
  /** Limit ids by service and limit. */
  readonly #ids = new Map<string, string>();
  #terms: RecordedTerms | undefined;
  #entitled: Entitled | undefined;

  constructor({ pricings }: Pick<ReplaySetting, "pricings">, shared: SharedTerms) {
    this.#pricings = pricings;
    this.#shared = shared;
  }

  enter(terms: RecordedTerms): void {
    this.#terms = terms;
    this.#entitled = undefined;
    this.#usage.clear();
    this.#ids.clear();
    for (const { serviceId, limitName, consumed = 0 } of terms.levels) {
      const key = `${serviceId} ${limitName}`;
      const balance = this.#consumed.get(key) ?? consumed;
      const id = `${terms.services.find((service) => service.serviceId === serviceId)?.key ?? ""}-${limitName}`;
      this.#consumed.set(key, balance);
      this.#usage.set(id, balance);
      this.#ids.set(key, id);
    }
  }

  /** Adds a movement, which the ledger has with the amount that it really moved. */
  move([kind, serviceId, limitName, , , amount]: RecordedMovement): void {
    if (kind === "late") return;
    const key = `${serviceId} ${limitName}`;
    const balance = Math.max(0, sum(this.#consumed.get(key) ?? 0, amount));
    this.#consumed.set(key, balance);
    const id = this.#ids.get(key);
    if (id !== undefined) this.#usage.set(id, balance);
  }

  /** Returns the mode that granted a call: the client's, unless only the server's did. Call it before {@link move}. */
  modeOf(featureId: string, at: number): EvaluationMode {
    const terms = this.#terms;
    if (terms === undefined) return MODES[0];
    this.#entitled ??= new Entitled(terms, this.#shared, (service) => {
      const pricing = this.#pricings.get(service.hash);
      return pricing && { pricing, configuration: this.#shared.configuration(service) };
    });
    const evaluation = this.#entitled.plain(at);
    return MODES.find((mode) => evaluateBoolean(evaluation, featureId, this.#usage, mode)) ?? MODES[0];
  }
}
