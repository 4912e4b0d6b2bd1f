import { buildServer, isServerStale } from "../../src/entries/build/server.ts";

/** Builds the servers on Node once per run, if their sources have changed. */
export default async function setup(): Promise<void> {
  if (isServerStale()) await buildServer();
}
