import { addedBy, withBlocks } from "../../pricing/blocks.ts";
import { type CompiledPricing, findPlan } from "../../pricing/compile.ts";
import { type Evaluation, prepareEvaluation } from "../../pricing/evaluate.ts";
import { holdsAt, withOverrides } from "../../pricing/overrides.ts";
import { grant, type Grant } from "../../pricing/subscription.ts";
import { type Configuration, configurationOf } from "../configuration.ts";
import type { Balances, ReplayedBlock } from "./balances.ts";
import { type Placement, placementKey, type RecordedOverride, type RecordedTerms } from "./record.ts";

/** Facts that all contracts of a replay share. */
export interface ReplaySetting {
  /** The service whose pricing is replaced. */
  readonly serviceId: string;
  readonly target: CompiledPricing;
  /** Compiled pricings that the contracts had, by hash. */
  readonly pricings: ReadonlyMap<string, CompiledPricing>;
  /** By {@link placementKey}. */
  readonly placements: ReadonlyMap<string, Placement>;
  /** Epoch milliseconds. */
  readonly from: number;
  readonly to: number;
}

/** One service of a contract under the terms of the replay. */
interface EntitledService {
  readonly serviceId: string;
  readonly serviceName: string;
  readonly pricing: CompiledPricing;
  readonly configuration: Configuration;
}

/** Objects that the contracts of a replay share, because evaluation caches by their identity. */
export class SharedTerms {
  readonly #configurations = new Map<string, Configuration>();
  readonly #grants = new Map<CompiledPricing, Map<Configuration, Grant>>();

  /** Returns a service's configuration as recorded. */
  configuration(service: RecordedTerms["services"][number]): Configuration {
    const key = placementKey(service);
    let configuration = this.#configurations.get(key);
    if (configuration === undefined) {
      const { plan, addOns } = service;
      configuration = configurationOf(plan ?? undefined, addOns ?? {});
      this.#configurations.set(key, configuration);
    }
    return configuration;
  }

  grant({ pricing, configuration }: Pick<EntitledService, "pricing" | "configuration">): Grant {
    const ofPricing = this.#grants.get(pricing) ?? new Map<Configuration, Grant>();
    this.#grants.set(pricing, ofPricing);
    let granted = ofPricing.get(configuration);
    if (granted === undefined) {
      granted = grant(pricing, configuration.plan, configuration.addOns);
      ofPricing.set(configuration, granted);
    }
    return granted;
  }
}

/** Last evaluation, with the time and blocks that it holds for. */
interface Prepared {
  readonly from: number;
  readonly until: number;
  readonly version: number;
  readonly evaluation: Evaluation;
}

const timed = ({ from, until, ...override }: RecordedOverride) => ({
  ...override,
  from: new Date(from),
  until: until === null ? null : new Date(until),
});

/** Pricing and configuration of a service. Undefined for one that grants nothing. */
export type Resolve = (
  service: RecordedTerms["services"][number],
) => Pick<EntitledService, "pricing" | "configuration"> | undefined;

/** Computes what the terms of a contract grant at any moment while they last. */
export class Entitled {
  readonly #shared: SharedTerms;
  readonly #services: readonly EntitledService[];
  readonly #overrides: ReturnType<typeof timed>[];
  /** False if the contract cannot be evaluated. */
  readonly #isUsable: boolean;
  #withBlocks: Prepared | undefined;
  #plain: Prepared | undefined;

  /** A contract without `required` grants nothing. Other services that do not resolve are left out. */
  constructor(terms: RecordedTerms, shared: SharedTerms, resolve: Resolve, required?: string) {
    this.#shared = shared;
    this.#services = terms.services.flatMap((service): EntitledService[] => {
      const resolved = resolve(service);
      return resolved === undefined ? [] : [{ serviceId: service.serviceId, serviceName: service.key, ...resolved }];
    });
    this.#overrides = (terms.overrides ?? []).map(timed);
    this.#isUsable =
      (required === undefined || this.#services.some(({ serviceId }) => serviceId === required)) &&
      this.#services.every(({ pricing, configuration: { plan } }) =>
        plan === undefined ? pricing.pricing.plans.length === 0 : findPlan(pricing, plan) !== undefined,
      );
  }

  /** Returns the evaluation with blocks at that moment. Undefined if none is possible. */
  evaluation(balances: Balances, at: number): Evaluation | undefined {
    if (!this.#isUsable) return undefined;
    const { blocks, version } = balances;
    if (blocks.length === 0) return this.plain(at);
    const known = this.#withBlocks;
    if (known !== undefined && known.version === version && known.from <= at && at < known.until)
      return known.evaluation;
    this.#withBlocks = this.#prepare(at, blocks, version);
    return this.#withBlocks.evaluation;
  }

  /** Returns the evaluation as if the contract had no blocks. */
  plain(at: number): Evaluation {
    const known = this.#plain;
    if (known !== undefined && known.from <= at && at < known.until) return known.evaluation;
    this.#plain = this.#prepare(at, [], 0);
    return this.#plain.evaluation;
  }

  #prepare(at: number, blocks: readonly ReplayedBlock[], version: number): Prepared {
    const moment = new Date(at);
    const boundaries = [
      ...this.#overrides.flatMap(({ from, until }) => [from, until]),
      ...blocks.flatMap(({ from, expiresAt }) => [from, expiresAt]),
    ].map((boundary) => boundary?.getTime() ?? Infinity);
    const overrides = this.#overrides.filter((override) => holdsAt(override, moment));
    const services = this.#services.map((service) => {
      const { serviceId, serviceName, pricing } = service;
      const granted = withOverrides(
        pricing,
        this.#shared.grant(service),
        overrides.filter((override) => override.serviceId === serviceId),
      );
      return { serviceName, pricing, grant: withBlocks(pricing, granted, addedTo(serviceId, blocks, moment)) };
    });
    return {
      from: Math.max(-Infinity, ...boundaries.filter((boundary) => boundary <= at)),
      until: Math.min(Infinity, ...boundaries.filter((boundary) => boundary > at)),
      version,
      evaluation: prepareEvaluation(services),
    };
  }
}

/** Returns what blocks add to the limits of a service at that moment. */
function addedTo(serviceId: string, blocks: readonly ReplayedBlock[], at: Date) {
  const ofService = blocks.filter((block) => block.serviceId === serviceId);
  const names = [...new Set(ofService.map(({ limitName }) => limitName))];
  return names.flatMap((limitName) => {
    const amount = addedBy(
      ofService.filter((block) => block.limitName === limitName),
      at,
    );
    return amount === 0 ? [] : [{ limitName, amount }];
  });
}
