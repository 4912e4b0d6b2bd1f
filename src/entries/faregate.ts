#!/usr/bin/env -S node --import tsx
import { runCli } from "../cli/cli.ts";
import { cliHost } from "./platform/cli-host.ts";
import manifest from "../../package.json" with { type: "json" };

/* The command line, `npx faregate`. The package's build replaces the first line, because its output is JavaScript. */
process.exitCode = await runCli(process.argv.slice(2), cliHost(manifest.version));
