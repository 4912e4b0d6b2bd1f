import type { Log, LogLevel } from "../http/route.ts";

// Whoever read our output may be gone (a closed pipe): that is no reason to stop serving.
process.stdout.on("error", () => {});

const ORDER: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** What may follow a password, a key or a token in a text: nothing of it goes into a log. */
const SECRETS = /\b(usr|org)_[0-9a-f]{8,}|\b(postgres(?:ql)?:\/\/[^:@/\s]*:)[^@\s]*@|\beyJ[\w-]+\.[\w-]+\.[\w-]*/g;

/**
 * One JSON line an event on standard output: level, time, process, message, and detail where there is some. Keys, pricing
 * tokens and the password of a database address are struck out wherever they turn up.
 */
export function createLog(minimum: LogLevel, processName: string): Log {
  return (level, message, detail) => {
    if (ORDER.indexOf(level) < ORDER.indexOf(minimum)) return;
    const line = JSON.stringify({
      level,
      time: new Date().toISOString(),
      process: processName,
      message,
      ...(detail === undefined ? {} : { detail: plain(detail) }),
    });
    const told = line.replace(SECRETS, (_, kind, url) => (url === undefined ? `${kind ?? "token"}_…` : `${url}…@`));
    process.stdout.write(`${told}\n`);
  };
}

/** An error by its name, sentence, code, place and causes; other values as they are. */
function plain(detail: unknown, depth = 0): unknown {
  if (!(detail instanceof Error)) return detail;
  const code = "code" in detail ? { code: detail.code } : {};
  const cause = detail.cause === undefined || depth > 3 ? {} : { cause: plain(detail.cause, depth + 1) };
  const stack =
    depth > 0
      ? {}
      : {
          stack: detail.stack
            ?.split("\n")
            .slice(1, 8)
            .map((line) => line.trim()),
        };
  return { name: detail.name, message: detail.message, ...code, ...stack, ...cause };
}
