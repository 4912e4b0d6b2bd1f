import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type Connection, connect } from "../../src/db/postgres/connect.ts";
import { outboxRange, recordEvent } from "../../src/db/queries/outbox.ts";
import { listenForTestEvents } from "../../src/db/queries/test-events.ts";
import { type Broadcast, createBroadcast } from "../../src/events/broadcast.ts";
import { createFeed } from "../../src/events/feed.ts";
import type { FindOrganization } from "../../src/events/handshake.ts";
import { createLog, type FollowedLog } from "../../src/events/log.ts";
import type { Patience } from "../../src/events/slow-clients.ts";
import type { TestDatabase } from "../support/database.ts";

/** URL of the handshake below an origin. */
export const HANDSHAKE = "/events/?EIO=4&transport=websocket";

/** Assembles the parts of src/entries/process/event-server.ts in this process. */
export interface InProcessServer {
  /** `http://127.0.0.1:<port>`. */
  origin: string;
  /** URL of the handshake for raw clients. */
  ws: string;
  log: FollowedLog;
  /** The one connection that the feed reads with. */
  reader: Connection;
  broadcast: Broadcast;
  /** Buffered bytes of each client that was disconnected. */
  cut: number[];
  close(): Promise<void>;
}

/** Opens an event server over this database. `pollMs` is long, so that only notifications advance it. */
export async function openInProcess(
  database: TestDatabase,
  options: { pollMs?: number; findOrganization?: FindOrganization; patience?: Patience } = {},
): Promise<InProcessServer> {
  const connection = connect(database.url, { maxConnections: 1 });
  const { newest } = await outboxRange(connection.db);
  const log = createLog(database.connection.db, newest);
  await log.fill();
  const cut: number[] = [];
  const broadcast = createBroadcast({
    baseUrlPath: "",
    log,
    onCut: (bytes) => cut.push(bytes),
    patience: options.patience,
    ...(options.findOrganization === undefined ? {} : { findOrganization: options.findOrganization }),
  });
  const feed = createFeed({
    connection,
    after: newest,
    pollMs: options.pollMs ?? 60_000,
    onEvent: (event) => {
      log.append(event);
      broadcast.publish(event);
    },
  });
  // Ignores a server that closes before it listens.
  listenForTestEvents(connection, broadcast.publishTest, () => {});
  const server = createServer();
  broadcast.attach(server);
  await feed.started;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    ws: `ws://127.0.0.1:${port}${HANDSHAKE}`,
    log,
    reader: connection,
    broadcast,
    cut,
    close: async () => {
      await feed.stop();
      const closed = new Promise((resolve) => server.close(resolve));
      await broadcast.close();
      server.closeAllConnections();
      await closed;
      await connection.close(0);
    },
  };
}

/** Records SERVICE_DISABLED of services with these names, each in its own transaction. */
export async function disableServices(database: TestDatabase, names: readonly string[], organizationId = "o") {
  for (const serviceName of names) {
    await database.connection.db.transaction((tx) =>
      recordEvent(tx, organizationId, { code: "SERVICE_DISABLED", details: { serviceName } }),
    );
  }
}
