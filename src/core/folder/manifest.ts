import type { Configuration, GroupTarget } from "../change/configuration.ts";
import type { GateRule } from "../change/impact/gate.ts";

/** Name of the file that lists what a folder holds. */
export const MANIFEST = "faregate.yml";

/** A version in a folder. Paths are relative to it. */
export interface VersionEntry {
  readonly file: string;
  readonly state: "active" | "archived";
  readonly expectations?: string;
  /** `line:column` of the entry in the manifest. */
  readonly place?: string;
}

/** Targets of the contracts on versions that are archived. Default: their best fit. */
export interface Moves {
  readonly fallback?: Configuration;
  readonly groups?: readonly GroupTarget[];
}

export interface ServiceEntry {
  readonly name: string;
  /** True if everybody may read the offer. Undefined leaves that as it is. */
  readonly public?: boolean;
  /** Former name. A service of the server with this name becomes this one. */
  readonly renamedFrom?: string;
  /** In the order of upload. */
  readonly versions: readonly VersionEntry[];
  readonly moves?: Moves;
}

export interface WebhookEntry {
  readonly url: string;
  readonly description: string | null;
  /** Null: all codes. */
  readonly codes: readonly string[] | null;
  readonly enabled: boolean;
}

/** Contents of `faregate.yml`. A part that is absent stays as it is. Source: contract files-and-migration §1. */
export interface Manifest {
  readonly services?: readonly ServiceEntry[];
  readonly gate?: readonly GateRule[];
  readonly alerts?: { readonly thresholds: readonly number[] };
  readonly webhooks?: readonly WebhookEntry[];
}
