import { addressBlock } from "../core/access/address-block.ts";

/** Counter of open connections per address in this process. */
export interface AddressLimit {
  /** Returns true if the address may open another connection. */
  allows(address: string): boolean;
  /** Counts an opened connection; returns an idempotent function that releases it. */
  opened(address: string): () => void;
}

/** Allows `limit` connections per IPv4 address or IPv6 /64 network. An unknown address has no limit. */
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
