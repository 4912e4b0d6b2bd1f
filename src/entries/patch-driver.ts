import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/*
 * postgres.js 3.4.9, the newest, does not survive the loss of a connection (issues 1066, 1154, 1208, pull requests 1168
 * and 1209, all open). Run by npm after each installation. Delete this file when a release passes
 * test/db/driver.fault.test.ts without it.
 */

interface Repair {
  file: "connection.js" | "index.js";
  why: string;
  find: string;
  put: string;
}

const REPAIRS: readonly Repair[] = [
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
    why: "Statements sent between the error and the close of a socket waited for ever, and took the answers of later ones.",
    find: "    !hadError && (query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n",
    put: "    ;(query || sent.length) && error(Errors.connection('CONNECTION_CLOSED', options, socket))\n    query = null\n",
  },
  {
    file: "index.js",
    why: "What follows in a transaction whose connection was lost and made anew ran outside of any transaction.",
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
];

/** Repairs the installed driver in place, for each runtime's build; does nothing the second time. */
export function patchDriver(): void {
  const root = dirname(dirname(dirname(createRequire(import.meta.url).resolve("postgres"))));
  for (const build of ["src", "cjs/src", "cf/src"]) {
    for (const file of ["connection.js", "index.js"] as const) {
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
