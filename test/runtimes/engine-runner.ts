import { type EngineCase, runCase } from "./engine-cases.ts";

/* Runs the cases from standard input and prints the engine's results. The same script runs on Node, Bun and Deno. */
const chunks: Uint8Array[] = [];
for await (const chunk of process.stdin as AsyncIterable<Uint8Array>) chunks.push(chunk);
const { cases, today } = JSON.parse(await new Blob(chunks as BlobPart[]).text()) as {
  cases: readonly EngineCase[];
  today: string;
};
process.stdout.write(JSON.stringify(cases.map((each) => runCase(each, today))));
