import * as fc from "fast-check";

/*
 * Every file of property tests imports this: a fixed seed ties failures to the change at hand. FUZZ_SEED selects other
 * cases.
 */
fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(process.env["FUZZ_SEED"] ?? 1) });
