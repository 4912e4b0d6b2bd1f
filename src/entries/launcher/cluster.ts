import type { ChildProcess } from "node:child_process";
import cluster from "node:cluster";

/*
 * Workers on Node. The primary process accepts connections and hands each to the next worker: an evaluation took 39
 * microseconds of processor time, in one process 36. Workers that accept by themselves took 74.
 */

/** Message of a worker to node:cluster. `ack`: it has received a connection, and keeps it if `accepted`. */
interface ClusterMessage {
  act?: string;
  ack: number;
  accepted?: boolean;
}

/** Workers that accept connections. */
const accepting = new Set<ChildProcess>();

/** Starts a worker, and repairs what node:cluster gets wrong when a worker dies. */
export function forkWorker(variables: Record<string, string>): ChildProcess {
  const worker = cluster.fork(variables);
  const { process: child } = worker;
  // A message to a worker that has just died fails; without a listener that would end this process.
  worker.on("error", () => {});
  // Connections that the worker never acknowledged would stay open here, and their clients would wait forever.
  const unacknowledged = new Map<number, { close(): void }>();
  const { send } = child;
  Object.assign(child, {
    send: (...given: [message: { act?: string; seq: number }, connection: { close(): void }]) => {
      const [message, connection] = given;
      if (message.act === "newconn") unacknowledged.set(message.seq, connection);
      return Reflect.apply(send, child, given);
    },
  });
  child.on("internalMessage", ({ act, ack, accepted }: ClusterMessage) => {
    if (act === "queryServer") accepting.add(child);
    if (act === "close") accepting.delete(child);
    // A draining worker leaves the connection to another one. Without another, it would stay open until the drain ends.
    if (accepted === false && accepting.size === 0) unacknowledged.get(ack)?.close();
    unacknowledged.delete(ack);
  });
  child.once("exit", () => {
    accepting.delete(child);
    for (const connection of unacknowledged.values()) connection.close();
  });
  return child;
}

/** Lets a worker drain after its primary process has died, as `runProcess` does. By itself node:cluster exits at once. */
export function drainWithoutPrimary(): void {
  if (cluster.worker !== undefined) cluster.worker.exitedAfterDisconnect = true;
}
