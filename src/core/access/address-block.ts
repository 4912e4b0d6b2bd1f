/** An IPv4 address that is mapped into IPv6, as sockets for both versions report it: `::ffff:192.0.2.7`. */
const MAPPED = /^(?:0*:)*:?(?:0*:)*ffff:(\d+\.\d+\.\d+\.\d+)$/i;

/** Returns a mapped IPv4 address as people write it: 192.0.2.7. Returns any other text unchanged. */
export function unmappedAddress(address: string): string {
  return MAPPED.exec(address)?.[1] ?? address;
}

/**
 * Returns the key under which addresses count as one client. IPv4 addresses, also when mapped into IPv6, stay separate.
 * IPv6 addresses count per /64 network, because one subscriber owns all of it. Returns any other text unchanged.
 */
export function addressBlock(address: string): string {
  const text = address.toLowerCase().replace(/^\[|\]$|%.*$/g, "");
  if (!text.includes(":")) return address;
  const unmapped = unmappedAddress(text);
  if (unmapped !== text) return unmapped;
  const [before = "", after] = text.split("::");
  const head = before === "" ? [] : before.split(":");
  const tail = after === undefined || after === "" ? [] : after.split(":");
  // A trailing IPv4 part stands for two groups. Both lie outside the /64 prefix.
  const tailLength = tail.length + (tail.at(-1)?.includes(".") === true ? 1 : 0);
  const zeros = after === undefined ? 0 : Math.max(0, 8 - head.length - tailLength);
  const groups = [...head, ...Array.from({ length: zeros }, () => "0"), ...tail].slice(0, 4);
  return `${groups.map((group) => group.replace(/^0+(?=.)/, "")).join(":")}::/64`;
}
