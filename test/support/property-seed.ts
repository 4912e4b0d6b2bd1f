import * as fc from "fast-check";

/*
 * Imported by every file of properties: they draw the same cases in each run, so that a failure says something of the
 * change at hand; FUZZ_SEED draws others.
 */
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env["FUZZ_SEED"] ?? 1) });
