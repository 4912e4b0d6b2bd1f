import { randomBytes } from "node:crypto";
import { chmodSync, existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { StartupProblem } from "../../db/postgres/connect.ts";
import type { Config } from "./config.ts";
import { previousSecrets, type Secrets } from "./given-secrets.ts";

const schema = z.object({
  jwtSecret: z.string().min(1),
  jwtSalt: z.string().min(1),
  apiKeysSecret: z.string().min(1),
  databasePassword: z.string().min(1),
});

/**
 * Loads the secrets of the embedded mode, or creates them on first use. `DATA_DIR/secrets.json` is readable by its
 * owner only. Environment variables take precedence.
 * @throws StartupProblem when the file cannot be written, is damaged, or is missing beside a database that needs it.
 */
export function loadOrCreateSecrets(config: Config): Secrets & { databasePassword: string } {
  const file = join(config.DATA_DIR, "secrets.json");
  const kept = read(file) ?? create(file);
  return {
    jwtSecret: config.JWT_SECRET ?? kept.jwtSecret,
    jwtSalt: config.JWT_SALT ?? kept.jwtSalt,
    apiKeysSecret: config.API_KEYS_SECRET ?? kept.apiKeysSecret,
    ...previousSecrets(config),
    databasePassword: kept.databasePassword,
  };
}

function read(file: string): z.infer<typeof schema> | undefined {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw new StartupProblem(`${file} cannot be read (${codeOf(error)}): start Faregate as the user it belongs to.`);
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new StartupProblem(`${file} is damaged: put back a copy of it; without it stored keys cannot be read.`, {
      cause,
    });
  }
}

/** Writes a temporary file and links it into place: of two concurrent processes one wins, and both use its secrets. */
function create(file: string): z.infer<typeof schema> {
  const random = () => randomBytes(32).toString("hex");
  if (existsSync(join(file, "..", "postgres"))) {
    throw new StartupProblem(
      `${file} is missing, but there is a database beside it: put back a copy of the file. Without it neither the database nor stored keys can be opened.`,
    );
  }
  const made = { jwtSecret: random(), jwtSalt: random(), apiKeysSecret: random(), databasePassword: random() };
  const unfinished = `${file}.${process.pid}`;
  try {
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(unfinished, `${JSON.stringify(made, undefined, 2)}\n`, { mode: 0o600 });
    chmodSync(unfinished, 0o600);
    linkSync(unfinished, file);
    return made;
  } catch (error) {
    const others = codeOf(error) === "EEXIST" ? read(file) : undefined;
    if (others !== undefined) return others;
    throw new StartupProblem(
      `The data folder ${join(file, "..")} cannot be written (${codeOf(error)}): set DATA_DIR to a folder of your own.`,
    );
  } finally {
    rmSync(unfinished, { force: true });
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : String(error);
}
