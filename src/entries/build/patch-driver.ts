import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/*
 * Repairs postgres.js 3.4.9, the newest release, which does not survive a lost connection, and slows down with each
 * statement. Upstream: issues 1066, 1154, 1208 and pull requests 1168, 1209, all open. npm runs this after each
 * installation. Delete this file when a release passes test/db/driver.fault.test.ts without it.
 */

interface Repair {
  file: "connection.js" | "index.js" | "queue.js";
  why: string;
  find: string;
  put: string;
}

/** Each edit occurs once in its file. Replacing `put` by `find` restores the published file. */
export const REPAIRS: readonly Repair[] = [
  {
    file: "connection.js",
    why: "A statement on a connection that is gone ended the process, from a timer, where nobody can catch.",
    find: "    if (terminated)\n      return queryError(q,",
    put: "    if (!socket)\n      return queryError(q, Errors.connection('CONNECTION_CLOSED', options)), true\n\n    if (terminated)\n      return queryError(q,",
  },
  {
    file: "connection.js",
    why: "The same for bytes that were waiting for the end of the tick.",
    find: "    const x = socket.write(chunk, fn)\n",
    put: "    const x = socket !== null && socket.write(chunk, fn)\n",
  },
  {
    file: "connection.js",
    why: "Bytes left over from the old connection were sent ahead of the greeting on the new one, which hung.",
    find: "    socket.removeAllListeners()\n    socket = null\n",
    put: "    socket.removeAllListeners()\n    socket = chunk = nextWriteTimer = null\n",
  },
  {
    file: "connection.js",
    why: "The first statement on the new connection failed with the server's last words on the old one, and the second had the rows of the cut answer, as empty ones, ahead of its own.",
    find: "    incomings = null\n    clearImmediate(nextWriteTimer)\n",
    put: "    incomings = null\n    results = errorResponse = null\n    result = new Result()\n    rows = 0\n    clearImmediate(nextWriteTimer)\n",
  },
  {
    file: "connection.js",
    why: "Statements sent between the error and the close of a socket waited for ever, and took the answers of later ones.",
    find: "    !hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n",
    put: "    ;(query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n    query = null\n",
  },
  {
    file: "connection.js",
    why: "A connection that was lost while a new one asked for the types of arrays ended the process: nobody waits for that.",
    find: "        return fetchArrayTypes()\n",
    put: "        return fetchArrayTypes().catch(() => {})\n",
  },
  {
    file: "index.js",
    why: "Statements of a transaction whose connection was lost ran on the new connection, outside of any transaction.",
    find: "      , prepare = null\n",
    put: "      , prepare = null\n      , lost = null\n",
  },
  {
    file: "index.js",
    why: "As above: remember the loss.",
    find: "connection.onclose = reject)",
    put: "connection.onclose = e => (lost = e, reject(e)))",
  },
  {
    file: "index.js",
    why: "As above: refuse the statement.",
    find: "        c.queue === full\n          ? queries.push(q)\n",
    put: "        lost ? q.reject(lost) : c.queue === full\n          ? queries.push(q)\n",
  },
  {
    file: "index.js",
    why: "No repair: says that a statement waits for a connection, so that it need not wait for ever.",
    find: "      : queries.push(query)\n  }\n",
    put: "      : (options.onwait && options.onwait(query), queries.push(query))\n  }\n",
  },
  {
    file: "connection.js",
    why: "A connection whose first statement had been given up before it was open was never used again: the pool ran empty.",
    find: "      initial && !initial.reserve && execute(initial)\n",
    put: "      if (initial.cancelled)\n        return (initial = null, ending ? terminate() : onopen(connection))\n\n      initial && !initial.reserve && execute(initial)\n",
  },
  {
    file: "index.js",
    why: "No repair: lets statements be refused while the server says nothing.",
    find: "  function handler(query) {\n    if (ending)\n",
    put: "  function handler(query) {\n    if (options.silent)\n      return query.reject(Errors.connection('CONNECT_TIMEOUT', options, options))\n\n    if (ending)\n",
  },
  {
    file: "index.js",
    why: "No repair: shows the connections, so that one of them can be given up.",
    find: "    PostgresError,\n    options,\n",
    put: "    PostgresError,\n    options,\n    connections,\n",
  },
  {
    file: "connection.js",
    why: "As above: what it waits for, and a way to give it up.",
    find: "    end,\n    count: 0,\n",
    put: "    end,\n    get current() { return query },\n    drop() { !initial && socket && socket.destroy() },\n    count: 0,\n",
  },
  {
    file: "queue.js",
    why: "A queue that was never empty kept a place for everything that had left it, and each statement searched all of them. After 400,000 statements, one took four times as long.",
    find: "      } else {\n        xs[index - 1] = undefined\n      }\n",
    put: "      } else if (index > 100 && index * 2 > xs.length) {\n        xs = xs.slice(index)\n        index = 0\n      } else {\n        xs[index - 1] = undefined\n      }\n",
  },
];

/** Node, Bun and Deno import `src`, Workers import `cf/src`. */
export const DRIVER_BUILDS = ["src", "cjs/src", "cf/src"] as const;
export type DriverBuild = (typeof DRIVER_BUILDS)[number];

const FILES = ["connection.js", "index.js", "queue.js"] as const;

/** Folder of the installed driver. Bun resolves to `src`, the others to `cjs/src`. */
export function driverFolder(): string {
  let folder = dirname(createRequire(import.meta.url).resolve("postgres"));
  while (["src", "cjs", "cf"].includes(basename(folder))) folder = dirname(folder);
  return folder;
}

/**
 * Returns files of these folders that lack a repair, relative to `root`. Compares the content, because an older release may
 * have left a marker.
 */
export function unrepairedFiles(root: string, folders: readonly string[]): string[] {
  return folders.flatMap((folder) =>
    FILES.filter((file) => {
      const text = readFileSync(join(root, folder, file), "utf8");
      return REPAIRS.some((repair) => repair.file === file && !text.includes(repair.put));
    }).map((file) => `${folder}/${file}`),
  );
}

/** Repairs the installed driver in place, for each runtime's build. Idempotent. */
export function patchDriver(): void {
  const root = driverFolder();
  for (const build of DRIVER_BUILDS) {
    for (const file of FILES) {
      const path = join(root, build, file);
      const original = readFileSync(path, "utf8");
      let text = original;
      for (const { find, put } of REPAIRS.filter((repair) => repair.file === file)) {
        if (text.includes(put)) continue;
        if (text.split(find).length !== 2)
          throw new Error(`${path} is not the code this repair was written for: ${find}`);
        text = text.replace(find, () => put);
      }
      if (text !== original) writeFileSync(path, text);
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) patchDriver();
