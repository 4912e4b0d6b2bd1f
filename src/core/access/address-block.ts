/**
 * The addresses that count as one client: an IPv4 address, written as IPv4 or inside IPv6, or the /64 network of an IPv6
 * address, because one subscriber has all of it. Returns any other text as it is.
 */
export function addressBlock(address: string): string {
  const text = address.toLowerCase().replace(/^\[|\]$|%.*$/g, "");
  if (!text.includes(":")) return address;
  const [, mapped] = /^(?:0*:)*:?(?:0*:)*ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(text) ?? [];
  if (mapped !== undefined) return mapped;
  const [before = "", after] = text.split("::");
  const head = before === "" ? [] : before.split(":");
  const tail = after === undefined || after === "" ? [] : after.split(":");
  // An IPv4 part at the end stands for two groups, which are below /64 in any case.
  const tailLength = tail.length + (tail.at(-1)?.includes(".") === true ? 1 : 0);
  const zeros = after === undefined ? 0 : Math.max(0, 8 - head.length - tailLength);
  const groups = [...head, ...Array.from({ length: zeros }, () => "0"), ...tail].slice(0, 4);
  return `${groups.map((group) => group.replace(/^0+(?=.)/, "")).join(":")}::/64`;
}
