import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { overSocket, parseDatabaseUrl, socketPath } from "./address.ts";
import { connect } from "./connect.ts";

/*
 * The Unix-domain socket of the embedded Postgres, in the folder of its cluster, which is closed to other users. A round
 * trip over it takes less processor time than over TCP (docs/benchmarks.md). TCP stays open for the operator's programs.
 */

/** Longest path of a socket in bytes, on macOS. Linux has room for four more. */
const MAX_PATH_BYTES = 103;

/** Arguments of a server without a Unix-domain socket. */
export const NO_SOCKET: readonly string[] = ["--unix-socket-directories="];

/** Returns the server's arguments for its socket. {@link NO_SOCKET} on Windows, and where its path would be too long. */
export function socketArguments(cluster: string, platform: string = process.platform): readonly string[] {
  if (platform === "win32" || Buffer.byteLength(socketPath(cluster, 65_535)) > MAX_PATH_BYTES) return NO_SOCKET;
  // Postgres reads a list of folders, and quotes as in SQL.
  return [`--unix-socket-directories="${cluster.replaceAll('"', '""')}"`, "--unix-socket-permissions=0700"];
}

/** Removes the sockets of a killed server, and their lock files. Call it only while no server runs on the cluster. */
export function removeSockets(cluster: string): void {
  for (const name of readdirSync(cluster)) if (isSocket(name)) rmSync(join(cluster, name), { force: true });
}

/** True for the name of a server's socket, or of its lock file. */
export const isSocket = (name: string): boolean => name.startsWith(".s.PGSQL.");

/** Returns the URL over the socket in a folder. If this process cannot reach the server there, returns the given one. */
export async function overReachableSocket(url: string, folder: string): Promise<string> {
  const local = overSocket(url, folder);
  const connection = connect(local, { maxConnections: 1 });
  try {
    await connection.client`select 1`;
    return local;
  } catch {
    return url;
  } finally {
    await connection.close(0);
  }
}

/** Returns the URL over the socket of a running server. If this process does not see the socket, returns the given one. */
export function overRunningSocket(url: string, folder = ""): string {
  const path = socketPath(folder, parseDatabaseUrl(url)?.ports[0]);
  return folder !== "" && existsSync(path) ? overSocket(url, folder) : url;
}
