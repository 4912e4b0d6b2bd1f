import type { Log, LogLevel } from "../../http/context.ts";
import { outliveReaders } from "../platform/output.ts";

const ORDER: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** Matches keys, tokens and database passwords, which must never reach a log. */
const SECRETS =
  /\b(usr|org)_[0-9a-f]{8,}|\b(postgres(?:ql)?:\/\/[^:@/\s]*:)[^@\s]*@|\beyJ[\w-]+\.[\w-]+\.[\w-]*|\bwhsec_[\w+/=]+/g;

function toStandardOutput(): (line: string) => void {
  outliveReaders();
  return (line) => void process.stdout.write(`${line}\n`);
}

/**
 * Creates a logger that writes one JSON line per event: level, time, process, message, and optional detail. Keys,
 * pricing tokens and passwords in database URLs are redacted everywhere.
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

/** Removes the parameters from a failed statement's message: they may contain contact data and hashes. */
export function withoutValues(message: string): string {
  return message.replace(/\nparams: [\s\S]*$/, "");
}

/** Reduces an error to name, message, code, stack and causes. Other values are returned unchanged. */
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
            // The stack starts with the message, which may span several lines.
            .filter((line) => line.startsWith("at "))
            .slice(0, 7),
        };
  return { name: detail.name, message: withoutValues(detail.message), ...code, ...stack, ...cause };
}
