import { addressBlock } from "../core/access/address-block.ts";

/** How many connections an address has open in this process. */
export interface AddressLimit {
  /** Whether it may open one more. */
  allows(address: string): boolean;
  /** Counts one; returns how to take it away, which counts once. */
  opened(address: string): () => void;
}

/** At most `limit` connections per address, or per /64 network of IPv6; an address that is not known has no limit. */
export function createAddressLimit(limit: number): AddressLimit {
  const open = new Map<string, number>();
  return {
    allows: (address) => address === "" || (open.get(addressBlock(address)) ?? 0) < limit,
    opened: (from) => {
      const address = addressBlock(from);
      open.set(address, (open.get(address) ?? 0) + 1);
      let isOpen = true;
      return () => {
        if (!isOpen) return;
        isOpen = false;
        const left = (open.get(address) ?? 1) - 1;
        if (left === 0) open.delete(address);
        else open.set(address, left);
      };
    },
  };
}
