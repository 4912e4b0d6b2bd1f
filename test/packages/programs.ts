import { type ChildProcess, execFile, spawn } from "node:child_process";
import { dirname } from "node:path";
import { promisify } from "node:util";
import { programOf } from "../runtimes/runtimes.ts";

/** Runtimes that the packages are tried on. */
export type PackageRuntime = "Node 20" | "Node 24" | "Bun";

/** The environment without this project's programs, with one runtime's programs first. */
export async function environmentOf(runtime: PackageRuntime): Promise<Record<string, string>> {
  const [program] = await programOf(runtime);
  const inherited = Object.entries(process.env).filter(
    ([name]) => !/^(npm_|VITE|NODE_ENV|NODE_OPTIONS|PORT$|EVENTS_PORT$)/.test(name),
  );
  const path = (process.env["PATH"] ?? "").split(":").filter((folder) => !folder.includes("node_modules"));
  return {
    ...Object.fromEntries(inherited.map(([name, value]) => [name, value ?? ""])),
    PATH: [dirname(program), ...path].join(":"),
    npm_config_update_notifier: "false",
    NEXT_TELEMETRY_DISABLED: "1",
  };
}

/** Runs a program to its end. Rejects with its output. */
export async function execute(
  [program = "", ...args]: readonly string[],
  options: { cwd: string; env: Record<string, string> },
): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(program, args, { ...options, maxBuffer: 1e8, timeout: 200_000 });
    return stdout;
  } catch (error) {
    const { stdout = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    throw new Error(`${program} ${args.join(" ")} failed: ${stdout}${stderr}`.slice(0, 4_000), { cause: error });
  }
}

/** A running program. */
export interface Started {
  process: ChildProcess;
  output: () => string;
  /** Exit code, or the signal that ended it. */
  exit: Promise<number | string>;
  /** Waits for a text of its output. Rejects when the program ends without it, or after a minute. */
  says(text: RegExp): Promise<RegExpExecArray>;
  stop(): Promise<number | string>;
}

export function startProgram(
  [program = "", ...args]: readonly string[],
  options: { cwd: string; env: Record<string, string> },
): Started {
  const child = spawn(program, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  }
  const exit = new Promise<number | string>((resolve) =>
    child.once("close", (code, signal) => resolve(code ?? signal ?? "")),
  );
  let hasEnded = false;
  void exit.then(() => (hasEnded = true));
  return {
    process: child,
    output: () => output,
    exit,
    says: async (text) => {
      for (const deadline = Date.now() + 60_000; ;) {
        const found = text.exec(output);
        if (found !== null) return found;
        if (hasEnded || Date.now() > deadline) throw new Error(`${program} never said ${text}: ${output}`);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    },
    stop: () => {
      child.kill("SIGTERM");
      return exit;
    },
  };
}
