import { createSocket, type Socket } from "node:dgram";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPublicLookup } from "../../src/entries/platform/download.ts";

/** A DNS server: `public.test` is 1.1.1.1, `private.test` is 1.1.1.1 and 10.0.0.1, and `hanging*.test` gets no answer. */
let server: Socket;
let lookup: ReturnType<typeof createPublicLookup>;
const ADDRESSES: Record<string, number[][]> = {
  public: [[1, 1, 1, 1]],
  private: [
    [1, 1, 1, 1],
    [10, 0, 0, 1],
  ],
};

/** Builds the answer to a DNS query: A records of the name, none for AAAA. */
function answerTo(query: Buffer): Buffer | undefined {
  const name = query.subarray(13, 13 + (query[12] ?? 0)).toString();
  const end = query.indexOf(0, 12) + 5;
  const addresses = query.readUInt16BE(end - 4) === 1 ? ADDRESSES[name] : [];
  if (addresses === undefined || name.startsWith("hanging")) return undefined;
  const header = Buffer.from(query.subarray(0, end));
  header.writeUInt16BE(0x8180, 2);
  header.writeUInt16BE(addresses.length, 6);
  header.writeUInt16BE(0, 10);
  const records = addresses.map((address) => Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, ...address]));
  return Buffer.concat([header, ...records]);
}

beforeAll(async () => {
  server = createSocket("udp4", (query, { port, address }) => {
    const answer = answerTo(query);
    if (answer !== undefined) server.send(answer, port, address);
  });
  await new Promise<void>((resolve) => server.bind(0, "127.0.0.1", resolve));
  lookup = createPublicLookup([`127.0.0.1:${server.address().port}`]);
});
afterAll(() => server.close());

const resolve = (host: string) =>
  new Promise((done) => lookup(host, { all: true }, (error, addresses) => done(error?.message ?? addresses)));

test("returns the addresses of a public host", async () => {
  expect(await resolve("public.test")).toEqual([{ address: "1.1.1.1", family: 4 }]);
});

test.each(["private.test", "localhost", "intranet", "app.localhost"])("rejects the host %s", async (host) => {
  expect(await resolve(host)).toContain(`${host} is not an address of the public internet`);
});

test("names that never resolve do not delay other names", async () => {
  let settled = 0;
  const hanging = Array.from({ length: 50 }, async (_, i) => {
    const answer = await resolve(`hanging${i}.test`);
    settled += 1;
    return answer;
  });
  expect(await resolve("public.test")).toEqual([{ address: "1.1.1.1", family: 4 }]);
  expect(settled).toBe(0);
  expect(await Promise.all(hanging)).toContain("hanging0.test has no address");
});
