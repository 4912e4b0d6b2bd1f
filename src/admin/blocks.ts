import type { Balance, Contract } from "./answers.ts";
import { path } from "./api.ts";
import { useAsk } from "./queries.ts";

/**
 * Adds the balances, and with them the blocks, to a contract as it is now. Undefined until both are there. A contract of a
 * past moment stays as it is: it has no balances.
 */
export function useWithBlocks(
  base: string,
  contract: Contract | undefined,
  options: { refetchInterval?: number } = {},
): Contract | undefined {
  const isNow = contract !== undefined && contract.asOf === undefined;
  const balances = useAsk<Balance[]>(
    isNow ? base + path`/contracts/${contract.userContact.userId}/balances` : undefined,
    {},
    options,
  );
  if (!isNow || balances.error !== null) return contract;
  return balances.data === undefined ? undefined : { ...contract, balances: balances.data };
}
