import { connect } from "../../db/postgres/connect.ts";
import { checkLedger } from "../../db/invariants.ts";
import { readArguments, runCommand } from "./command.ts";

/*
 * `npm run check:ledger` checks that every balance equals the sum of its movements. Read-only; safe beside a running
 * system. Exit code 0 when all agree, 1 when one does not, 2 when the check could not run.
 */
await runCommand(async ({ database }) => {
  readArguments({});
  const connection = connect(database, { maxConnections: 1, applicationName: "faregate-check-ledger" });
  try {
    const { balances, movements, violations } = await checkLedger(connection.db);
    for (const { rule, contractId, serviceId, limitName, consumed, moved } of violations) {
      process.stderr.write(
        `Violated: ${rule}. Contract ${contractId}, service ${serviceId}, limit ${limitName}: balance ${consumed}, movements ${moved}.\n`,
      );
    }
    const verdict = violations.length === 0 ? "all agree" : `${violations.length} disagree`;
    process.stdout.write(`${balances} balances, ${movements} movements: ${verdict}.\n`);
    return violations.length === 0 ? 0 : 1;
  } finally {
    await connection.close();
  }
});
