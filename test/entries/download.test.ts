import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { createDownload } from "../../src/entries/platform/download.ts";
import { isPublicAddress } from "../../src/entries/platform/public-lookup.ts";

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
});

async function serve(listener: RequestListener): Promise<string> {
  server = createServer(listener);
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const anywhere = createDownload({ allowedHosts: [] });

const V4 = ["127.0.0.1", "10.1.2.3", "172.20.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"];
const V6 = ["::1", "::", "fe80::1", "fc00::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1"];

it.each([...V4, ...V6, "x"])("%s is not an address of the public internet", (address) => {
  expect(isPublicAddress(address)).toBe(false);
});

it.each(["1.1.1.1", "172.32.0.1", "2606:4700::1111"])("%s is one", (address) => {
  expect(isPublicAddress(address)).toBe(true);
});

describe("what is not fetched", () => {
  it.each([
    ["http://example.com/p.yml", /Expected "https:"/],
    ["file:///etc/passwd", /Expected "https:"/],
    ["data:text/plain,x", /Expected "https:"/],
    ["https://user:pass@example.com/p.yml", /name or password/],
    ["https://127.0.0.1/p.yml", /public internet/],
    ["https://[::1]/p.yml", /public internet/],
    ["https://2130706433/p.yml", /public internet/],
    ["https://localhost/p.yml", /public internet/],
  ])("%s", async (address, reason) => {
    await expect(anywhere(address, 1000)).rejects.toMatchObject({ code: "invalid", message: reason });
  });
});

describe("an allowed host", () => {
  it("may be private and without TLS", async () => {
    const host = await serve((_, response) => response.end("saasName: Zoom"));
    const download = createDownload({ allowedHosts: [host] });
    expect(await download(`http://${host}/p.yml`, 1000)).toBe("saasName: Zoom");
  });

  it("cannot redirect to one that is not", async () => {
    const host = await serve((_, response) => response.writeHead(302, { location: "http://169.254.169.254/" }).end());
    const download = createDownload({ allowedHosts: [host] });
    await expect(download(`http://${host}/`, 1000)).rejects.toThrow(/Expected "https:"/);
  });

  it("is followed through three redirects and no more", async () => {
    const host = await serve((request, response) => {
      const left = Number(request.url?.slice(1));
      if (left === 0) response.end("there");
      else response.writeHead(307, { location: `/${left - 1}` }).end();
    });
    const download = createDownload({ allowedHosts: [host] });
    expect(await download(`http://${host}/3`, 1000)).toBe("there");
    await expect(download(`http://${host}/4`, 1000)).rejects.toThrow(/more than 3 redirects/);
  });

  it("is refused for an error and for too much", async () => {
    const host = await serve((request, response) =>
      request.url === "/big" ? response.end("x".repeat(1001)) : response.writeHead(404).end(),
    );
    const download = createDownload({ allowedHosts: [host] });
    await expect(download(`http://${host}/big`, 1000)).rejects.toThrow(/more than 1000 bytes/);
    await expect(download(`http://${host}/none`, 1000)).rejects.toThrow(/status: 404/);
  });
});
