import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { type AddressInfo, createServer as createTcpServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, describe, expect, test } from "vitest";
import { createDownload } from "../../src/entries/platform/download.ts";
import { isPublicAddress } from "../../src/entries/platform/public-lookup.ts";

/*
 * All listeners run on this machine, so a gap in the rules would let requests through. Tests of rejections assert that
 * no connection arrived.
 */

const open: { close(): unknown; closeAllConnections?(): void }[] = [];
afterEach(() => {
  for (const server of open.splice(0)) {
    server.closeAllConnections?.();
    server.close();
  }
});

async function listening(server: Server): Promise<{ port: number; connections: () => number }> {
  open.push(server);
  let connections = 0;
  server.on("connection", (socket) => {
    connections += 1;
    socket.on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

const http = (listener: RequestListener) => listening(createServer(listener));
const LIMIT = 1000;
const fails = (message: string | RegExp) => ({ code: "invalid", message });
const nowhere = createDownload({ allowedHosts: [] });
const fromHere = createDownload({ allowedHosts: ["127.0.0.1"] });

describe("addresses that are not of the public internet", () => {
  test.each([
    ["this host", "0.0.0.0", "0.1.2.3"],
    ["private", "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.255", "192.168.0.1"],
    ["carrier-grade NAT", "100.64.0.1", "100.127.255.255"],
    ["loopback", "127.0.0.1", "127.255.255.254"],
    ["link-local and metadata", "169.254.0.1", "169.254.169.254"],
    ["protocol assignments, documentation, benchmarks", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.9"], // prettier-ignore
    ["multicast, reserved, broadcast", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"],
    ["unspecified and loopback of IPv6", "::", "::1"],
    ["IPv4 within IPv6", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "::ffff:0:10.0.0.1"],
    ["NAT64", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1"],
    ["6to4 and Teredo", "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:4136:e378::1"],
    ["unique local, link-local, site-local", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%eth0", "fec0::1"],
    ["multicast, documentation, discard of IPv6", "ff02::1", "2001:db8::1", "3fff::1", "100::1"],
    ["no addresses", "localhost", "2130706433", "0x7f.1", "017700000001", ""],
  ])("%s", (_, ...addresses) => {
    expect(addresses.filter(isPublicAddress)).toEqual([]);
  });

  test("their neighbours are", () => {
    const neighbours = ["9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255", "192.169.0.0", "223.255.255.255", "8.8.8.8", "2606:4700:4700::1111", "2a00:1450::1"]; // prettier-ignore
    expect(neighbours.filter((address) => !isPublicAddress(address))).toEqual([]);
  });
});

describe("without an allowed host", () => {
  test.each([
    ["https://127.0.0.1"],
    ["https://2130706433"],
    ["https://0x7f000001"],
    ["https://0177.0.0.1"],
    ["https://127.1"],
    ["https://[::ffff:127.0.0.1]"],
    ["https://localhost"],
    ["https://LOCALHOST."],
  ])("%s is refused at connect time and no connection arrives", async (origin) => {
    const { port, connections } = await listening(createTcpServer());
    await expect(nowhere(`${origin}:${port}/p.yml`, LIMIT)).rejects.toMatchObject(
      fails(/^Invalid URL: .* is not an address of the public internet$/),
    );
    expect(connections()).toBe(0);
  });

  test.each([
    ["http://example.org/p.yml", 'Protocol "http:" not supported. Expected "https:"'],
    ["ftp://example.org/p.yml", 'Protocol "ftp:" not supported. Expected "https:"'],
    ["file:///etc/passwd", 'Protocol "file:" not supported. Expected "https:"'],
    ["data:text/plain,saasName", 'Protocol "data:" not supported. Expected "https:"'],
    ["gopher://127.0.0.1/", 'Protocol "gopher:" not supported. Expected "https:"'],
    ["https://name:secret@example.org/", "Invalid URL: an address with a name or password is not fetched"],
  ])("%s is refused", async (address, message) => {
    await expect(nowhere(address, LIMIT)).rejects.toMatchObject(fails(message));
  });
});

describe("from an allowed host", () => {
  test("text comes back exactly, and the request carries neither credentials nor the server's own headers", async () => {
    let sent: Record<string, unknown> = {};
    const { port } = await http((request, response) => {
      sent = request.headers;
      response.end("\uFEFFa: Grüße\r\n");
    });
    const text = await fromHere(`http://127.0.0.1:${port}/p.yml`, LIMIT);
    expect(text).toBe("\uFEFFa: Grüße\r\n");
    expect(Object.keys(sent).sort()).toEqual(["accept", "accept-encoding", "connection", "host", "user-agent"]);
  });

  test("the permission is for that host and, where one is named, that port only", async () => {
    const { port, connections } = await http((_, response) => response.end("x"));
    const other = createDownload({ allowedHosts: [`127.0.0.1:${port + 1}`, "localhost"] });
    await expect(other(`http://127.0.0.1:${port}/`, LIMIT)).rejects.toMatchObject({ code: "invalid" });
    expect(connections()).toBe(0);
    const exact = createDownload({ allowedHosts: [`127.0.0.1:${port}`] });
    expect(await exact(`http://127.0.0.1:${port}/`, LIMIT)).toBe("x");
  });

  test.each([
    ["another scheme", "ftp://127.0.0.1/"],
    ["plain http at another host", "http://localhost/"],
    ["a private address", "https://10.0.0.1/"],
    ["the metadata address", "https://169.254.169.254/latest"],
    ["a name that leads to this machine", "https://localhost:1/"],
    ["a file", "file:///etc/passwd"],
  ])("a redirect to %s is refused like a first address", async (_, location) => {
    const { port } = await http((__, response) => response.writeHead(302, { location }).end());
    await expect(fromHere(`http://127.0.0.1:${port}/`, LIMIT)).rejects.toMatchObject(
      fails(/^(Protocol "\w+:" not supported|Invalid URL: .* public internet$)/),
    );
  });

  test.each([301, 302, 303, 307, 308])("three redirects of status %i are followed, a fourth is not", async (status) => {
    const { port } = await http((request, response) => {
      const left = Number(request.url?.slice(1));
      if (left === 0) response.end("there");
      else response.writeHead(status, { location: `/${left - 1}` }).end();
    });
    expect(await fromHere(`http://127.0.0.1:${port}/3`, LIMIT)).toBe("there");
    await expect(fromHere(`http://127.0.0.1:${port}/4`, LIMIT)).rejects.toMatchObject(
      fails(`Failed to fetch pricing from URL: http://127.0.0.1:${port}/4, more than 3 redirects`),
    );
  });

  test.each([203, 204, 299])("status %i is an answer", async (status) => {
    const { port } = await http((_, response) => response.writeHead(status).end());
    expect(await fromHere(`http://127.0.0.1:${port}/`, LIMIT)).toBe("");
  });

  test.each([300, 304, 400, 401, 404, 500, 503])("status %i fails with its number", async (status) => {
    const { port } = await http((_, response) => response.writeHead(status).end());
    await expect(fromHere(`http://127.0.0.1:${port}/p.yml`, LIMIT)).rejects.toMatchObject(
      fails(`Failed to fetch pricing from URL: http://127.0.0.1:${port}/p.yml, status: ${status}`),
    );
  });

  test("a body of the limit is taken, one byte more is not, and an endless one is not read on", async () => {
    let written = 0;
    const { port } = await http((request, response) => {
      if (request.url === "/endless") {
        const more = () => {
          while (!response.destroyed && (written += 65_536) < 1e9 && response.write(Buffer.alloc(65_536, "x")));
        };
        response.on("drain", more);
        more();
      } else response.end("x".repeat(Number(request.url?.slice(1))));
    });
    const at = (path: string) => fromHere(`http://127.0.0.1:${port}/${path}`, LIMIT);
    expect(await at("1000")).toHaveLength(LIMIT);
    await expect(at("1001")).rejects.toMatchObject(fails(/more than 1000 bytes$/));
    await expect(at("endless")).rejects.toMatchObject(fails(/more than 1000 bytes$/));
    expect(written).toBeLessThan(50e6);
  });

  test("a body that is not UTF-8 is no YAML", async () => {
    const { port } = await http((_, response) => response.end(Buffer.from([0x61, 0xff])));
    await expect(fromHere(`http://127.0.0.1:${port}/`, LIMIT)).rejects.toMatchObject(
      fails("Pricing parsing error: The file does not contain valid YAML content."),
    );
    const latin = await http((_, response) => response.end(Buffer.from("saasName: Café", "latin1")));
    await expect(fromHere(`http://127.0.0.1:${latin.port}/`, LIMIT)).rejects.toMatchObject(
      fails(/probably in Latin-1\. Save it as UTF-8\.$/),
    );
  });

  test("who closes the connection, or does not listen, has failed", async () => {
    const { port } = await listening(createTcpServer((socket) => socket.destroy()));
    const closed = `http://127.0.0.1:${port}/`;
    await expect(fromHere(closed, LIMIT)).rejects.toMatchObject(fails(`Failed to fetch pricing from URL: ${closed}`));
    await expect(fromHere("http://127.0.0.1:1/", LIMIT)).rejects.toMatchObject(
      fails("Failed to fetch pricing from URL: http://127.0.0.1:1/"),
    );
    const asGiven = "HTTP://127.0.0.1:1/a/../b?c=d e#f";
    await expect(fromHere(asGiven, LIMIT)).rejects.toMatchObject(fails(`Failed to fetch pricing from URL: ${asGiven}`));
    const { port: half } = await http((_, response) => {
      response.writeHead(200, { "content-length": "100" }).write("half");
      setTimeout(() => response.destroy(), 20);
    });
    await expect(fromHere(`http://127.0.0.1:${half}/`, LIMIT)).rejects.toMatchObject({ code: "invalid" });
  });

  test(
    "five seconds are all there is: for headers, for a trickling body, and for redirects together",
    { timeout: 60_000 },
    async () => {
      const silent = await listening(createTcpServer());
      const trickling = await http((_, response) => {
        const timer = setInterval(() => response.write("x"), 100);
        response.on("close", () => clearInterval(timer));
      });
      const slow = await http((request, response) => {
        setTimeout(() => response.writeHead(302, { location: `${request.url}x` }).end(), 2000);
      });
      const started = performance.now();
      await Promise.all(
        [silent, trickling, slow].map(({ port }) => {
          const address = `http://127.0.0.1:${port}/`;
          return expect(fromHere(address, LIMIT)).rejects.toMatchObject(
            fails(`Timeout fetching pricing from URL: ${address}`),
          );
        }),
      );
      expect(performance.now() - started).toBeGreaterThan(4900);
    },
  );
});

describe("certificates", () => {
  const folder = mkdtempSync(join(tmpdir(), "faregate-tls-"));
  const file = (name: string) => join(folder, name);
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", file("key.pem"), "-out", file("certificate.pem")], { stdio: "ignore" }); // prettier-ignore
  const tls = { key: readFileSync(file("key.pem")), cert: readFileSync(file("certificate.pem")) };
  const secure = () => listening(createTlsServer(tls, (_, response) => response.end("secure")));

  test("one that nobody vouches for is refused, whatever the environment says", async () => {
    const { port } = await secure();
    const before = process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
    process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
    try {
      const download = createDownload({ allowedHosts: ["localhost"] });
      await expect(download(`https://localhost:${port}/`, LIMIT)).rejects.toMatchObject(
        fails(`Failed to fetch pricing from URL: https://localhost:${port}/`),
      );
    } finally {
      if (before === undefined) delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];
      else process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = before;
    }
  });

  test("one of a trusted authority is accepted for its own name only", { timeout: 20_000 }, async () => {
    const { port } = await secure();
    const module = fileURLToPath(new URL("../../src/entries/platform/download.ts", import.meta.url));
    // A process reads its trusted certificates at start.
    const script = `
      import { createDownload } from ${JSON.stringify(module)};
      const download = createDownload({ allowedHosts: ["localhost", "127.0.0.1"] });
      const results = await Promise.all(["localhost", "127.0.0.1"].map((host) =>
        download("https://" + host + ":${port}/", 1000).catch((error) => error.message)));
      console.log(JSON.stringify(results));`;
    const output = await new Promise<string>((resolve) => {
      const child = spawn(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
        env: { ...process.env, NODE_EXTRA_CA_CERTS: file("certificate.pem") },
        cwd: fileURLToPath(new URL("../..", import.meta.url)),
      });
      let text = "";
      child.stdout.on("data", (chunk) => (text += String(chunk)));
      child.on("close", () => resolve(text));
    });
    rmSync(folder, { recursive: true, force: true });
    expect(JSON.parse(output)).toEqual(["secure", `Failed to fetch pricing from URL: https://127.0.0.1:${port}/`]);
  });
});
