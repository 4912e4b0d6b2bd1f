import { createSocket, type Socket } from "node:dgram";
import { lookup, type LookupAddress } from "node:dns";
import { afterEach, describe, expect, it } from "vitest";
import { createPublicLookup } from "../../src/entries/platform/public-lookup.ts";

/* A real DNS server on this machine: it answers what a test lists, leaves names that begin with "hanging" unanswered, and
   knows no others. */

const A = 1;
const sockets: Socket[] = [];
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.close();
});

interface Server {
  address: string;
  asked: string[];
}

async function dnsServer(names: Record<string, string[]>): Promise<Server> {
  const socket = createSocket("udp4");
  sockets.push(socket);
  const asked: string[] = [];
  socket.on("message", (query, from) => {
    const { name, type, end } = questionOf(query);
    asked.push(name);
    if (name.startsWith("hanging")) return;
    const data = (names[name] ?? []).map(bytesOf).filter(({ length }) => length === (type === A ? 4 : 16));
    const header = Buffer.from(query.subarray(0, 12));
    header.writeUInt16BE(name in names ? 0x8180 : 0x8183, 2);
    header.writeUInt16BE(data.length, 6);
    header.writeUInt16BE(0, 8);
    header.writeUInt16BE(0, 10);
    const records = data.map((bytes) => Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, 60, 0, bytes.length, ...bytes]));
    socket.send(Buffer.concat([header, query.subarray(12, end), ...records]), from.port, from.address);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  return { address: `127.0.0.1:${socket.address().port}`, asked };
}

function questionOf(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join(".").toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** Of an address whose IPv6 form is written in full. */
function bytesOf(address: string): number[] {
  if (!address.includes(":")) return address.split(".").map(Number);
  return address.split(":").flatMap((group) => [Number.parseInt(group, 16) >> 8, Number.parseInt(group, 16) & 255]);
}

const resolveAll = ({ address }: Server, host: string) =>
  new Promise<LookupAddress[]>((resolve, reject) => {
    createPublicLookup({ servers: [address] })(host, { all: true }, (error, addresses) =>
      error === null ? resolve(addresses as LookupAddress[]) : reject(error),
    );
  });

describe("the lookup of a host that a tenant names", () => {
  it("answers the addresses of both families", async () => {
    const server = await dnsServer({
      "both.example": ["93.184.216.34", "2606:4700:0:0:0:0:0:1111"],
      "four.example": ["93.184.216.34"],
    });
    expect(await resolveAll(server, "both.example")).toEqual([
      { address: "93.184.216.34", family: 4 },
      { address: "2606:4700::1111", family: 6 },
    ]);
    expect(await resolveAll(server, "four.example")).toEqual([{ address: "93.184.216.34", family: 4 }]);
  });

  it("answers one address to a socket that takes one", async () => {
    const { address } = await dnsServer({ "one.example": ["93.184.216.34", "2606:4700:0:0:0:0:0:1111"] });
    const answer = await new Promise((resolve) => {
      createPublicLookup({ servers: [address] })("one.example", { family: 6 }, (...given) => resolve(given));
    });
    expect(answer).toEqual([null, "2606:4700::1111", 6]);
  });

  it.each([
    ["a private address", ["10.0.0.1"]],
    ["a public and a private address", ["93.184.216.34", "169.254.169.254"]],
    ["a private address of the other family", ["93.184.216.34", "fc00:0:0:0:0:0:0:1"]],
  ])("refuses %s", async (_, addresses) => {
    const server = await dnsServer({ "inside.example": addresses });
    await expect(resolveAll(server, "inside.example")).rejects.toThrow(/not an address of the public internet/);
  });

  it.each(["localhost", "LOCALHOST", "a.localhost", "localhost."])("refuses %s without asking", async (host) => {
    const server = await dnsServer({ [host]: ["93.184.216.34"] });
    await expect(resolveAll(server, host)).rejects.toThrow(/not an address of the public internet/);
    expect(server.asked).toEqual([]);
  });

  it("fails for a name that does not exist", async () => {
    await expect(resolveAll(await dnsServer({}), "nowhere.example")).rejects.toMatchObject({ code: "ENOTFOUND" });
  });

  it("is not delayed by a hundred names that hang, nor is the system's own", async () => {
    const server = await dnsServer({ "healthy.example": ["93.184.216.34"] });
    let ended = 0;
    const hanging = Array.from({ length: 100 }, (_, i) =>
      resolveAll(server, `hanging-${i}.example`)
        .catch((error: NodeJS.ErrnoException) => error.code)
        .finally(() => (ended += 1)),
    );
    while (new Set(server.asked).size < 100) await new Promise((resolve) => setTimeout(resolve, 10));
    expect(await resolveAll(server, "healthy.example")).toHaveLength(1);
    // Goes through libuv's threads, which the hanging names would hold.
    await new Promise<void>((resolve, reject) => lookup("localhost", (error) => (error ? reject(error) : resolve())));
    expect(ended).toBe(0);
    expect(new Set(await Promise.all(hanging))).toEqual(new Set(["ETIMEOUT"]));
  });
});
