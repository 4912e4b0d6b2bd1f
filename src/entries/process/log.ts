import type { Log, LogLevel } from "../../http/route.ts";

const ORDER: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** What may follow a password, a key or a token in a text: nothing of it goes into a log. */
const SECRETS =
  /\b(usr|org)_[0-9a-f]{8,}|\b(postgres(?:ql)?:\/\/[^:@/\s]*:)[^@\s]*@|\beyJ[\w-]+\.[\w-]+\.[\w-]*|\bwhsec_[\w+/=]+/g;

function toStandardOutput(): (line: string) => void {
  // Whoever read our output may be gone (a closed pipe): that is no reason to stop serving.
  if (process.stdout.listenerCount("error") === 0) process.stdout.on("error", () => {});
  return (line) => void process.stdout.write(`${line}\n`);
}

/**
 * One JSON line an event: level, time, process, message, and detail where there is some. Keys, pricing
 * tokens and the password of a database address are struck out wherever they turn up.
 */
export function createLog(minimum: LogLevel, processName: string, write = toStandardOutput()): Log {
  return (level, message, detail, about) => {
    if (ORDER.indexOf(level) < ORDER.indexOf(minimum)) return;
    const line = JSON.stringify({
      level,
      time: new Date().toISOString(),
      process: processName,
      message,
      ...about,
      ...(detail === undefined ? {} : { detail: plain(detail) }),
    });
    const told = line.replace(SECRETS, (_, kind, url) => (url === undefined ? `${kind ?? "token"}_…` : `${url}…@`));
    write(told);
  };
}

/** A failed statement names the values that it was to write: contacts, hashes. The statement itself is enough. */
export function withoutValues(message: string): string {
  return message.replace(/\nparams: [\s\S]*$/, "");
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
            .map((line) => line.trim())
            // The message comes first, in as many lines as it has.
            .filter((line) => line.startsWith("at "))
            .slice(0, 7),
        };
  return { name: detail.name, message: withoutValues(detail.message), ...code, ...stack, ...cause };
}
