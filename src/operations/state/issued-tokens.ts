import type { MaybePromise } from "../../core/maybe-promise.ts";
import type { Evaluation } from "../../core/pricing/evaluate.ts";
import type { ContractSnapshot } from "../../db/queries/contract-snapshots.ts";

/** A signed pricing token. Frozen, because requests share it. */
export interface IssuedToken {
  readonly pricingToken: string;
}

/** The inputs of a token beside the balances, which are the snapshot's. The evaluation changes when an override begins or ends. */
interface TokenInputs {
  evaluation: Evaluation;
  server: boolean;
  issuer: string;
  /** Id of the Ed25519 key; undefined for HS256. */
  kid: string | undefined;
  /** Path of the spender; null without one. */
  spender: string | null;
}

/** The last token of each contract within one second. Signed again in that second, a token would be identical. */
const lastTokens = {
  issuedAtSeconds: 0,
  byContract: new Map<ContractSnapshot, TokenInputs & { token: MaybePromise<IssuedToken> }>(),
};

/** Returns the token that was already signed for the same inputs in this second, or signs one. */
export function signOncePerSecond(
  contract: ContractSnapshot,
  { evaluation, server, issuer, kid, spender, issuedAtSeconds }: TokenInputs & { issuedAtSeconds: number },
  sign: () => MaybePromise<IssuedToken>,
): MaybePromise<IssuedToken> {
  if (lastTokens.issuedAtSeconds !== issuedAtSeconds) {
    lastTokens.issuedAtSeconds = issuedAtSeconds;
    lastTokens.byContract = new Map();
  }
  const { byContract } = lastTokens;
  const last = byContract.get(contract);
  const isSameKind = last?.server === server && last.issuer === issuer && last.kid === kid;
  if (isSameKind && last.evaluation === evaluation && last.spender === spender) return last.token;
  const entry = { evaluation, server, issuer, kid, spender, token: sign() };
  byContract.set(contract, entry);
  if (entry.token instanceof Promise) {
    entry.token.then(
      (token) => (entry.token = token),
      () => byContract.delete(contract),
    );
  }
  return entry.token;
}
