import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import postgres from "postgres";

/* Baseline: LISTEN, and each payload to every WebSocket: `node --import tsx bare-events.ts <database> <channel>`. */

interface BareServer {
  clients: Set<{ send(text: string): void }>;
}
const { WebSocketServer } = createRequire(createRequire(import.meta.url).resolve("engine.io"))("ws") as {
  WebSocketServer: new (options: { server: object }) => BareServer;
};

const [, , databaseUrl = "", channel = ""] = process.argv;
const server = createServer();
const sockets = new WebSocketServer({ server });
await postgres(databaseUrl).listen(channel, (payload) => {
  for (const client of sockets.clients) client.send(payload);
});
server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
process.on("disconnect", () => process.exit(0));
