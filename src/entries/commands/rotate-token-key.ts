import { StartupProblem } from "../../db/postgres/connect.ts";
import { contextOf } from "../../operations/context.ts";
import { revokeTokenKeys, rotateTokenKey } from "../../operations/token-keys.ts";
import { withResources } from "../process/bare-resources.ts";
import { secondsIn } from "../process/variables.ts";
import { readArguments, runCommand } from "./command.ts";

/*
 * `npm run rotate-token-key [-- --lead 10m] [-- --revoke]`: replaces the key that signs EdDSA pricing tokens, beside a
 * running system. Exit codes: 0 done; 1 a key is published and does not sign yet; 2 not done.
 */

const MAX_LEAD_SECONDS = 7 * 86_400;

function operands(): { leadMs: number; revokes: boolean } {
  const { lead, revoke = false } = readArguments({ lead: { type: "string" }, revoke: { type: "boolean" } }).values;
  if (revoke && lead !== undefined) throw new StartupProblem("--lead cannot be combined with --revoke.");
  const seconds = secondsIn(lead ?? "10m");
  if (seconds === undefined || seconds > MAX_LEAD_SECONDS) {
    throw new StartupProblem(`--lead must be a number and a unit from 1s to 7d, such as 10m, not "${lead}".`);
  }
  return { leadMs: seconds * 1000, revokes: revoke };
}

await runCommand(async ({ config, database, secrets }) => {
  const { leadMs, revokes } = operands();
  const options = { database, applicationName: "faregate-rotate" };
  return withResources(config, secrets(), options, async (resources) => {
    const ctx = contextOf(resources, { kind: "anonymous" });
    if (revokes) {
      const { key, withdrawn } = await revokeTokenKeys(ctx);
      process.stdout.write(
        `Key ${key.kid} signs now; ${withdrawn} keys are withdrawn, and every token that they signed.\n`,
      );
      return 0;
    }
    const rotation = await rotateTokenKey(ctx, { leadMs });
    if (!rotation.isDone) {
      const { kid, signsFrom } = rotation.next;
      process.stdout.write(`Key ${kid} signs from ${signsFrom.toISOString()}: wait until then, or use --revoke.\n`);
      return 1;
    }
    const { key, previous } = rotation;
    process.stdout.write(
      `Key ${key.kid} is published and signs from ${key.signsFrom.toISOString()}; ` +
        `${previous.kid} stays published until ${previous.publishedUntil.toISOString()}.\n`,
    );
    return 0;
  });
});
