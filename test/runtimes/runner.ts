/*
 * Calls `run` of a module with the JSON from standard input. Prints the result as JSON. The argument names the module. The same
 * script runs on Node, Bun and Deno.
 */
const [, , module = ""] = process.argv;
const chunks: Uint8Array[] = [];
for await (const chunk of process.stdin as AsyncIterable<Uint8Array>) chunks.push(chunk);
const input: unknown = JSON.parse(await new Blob(chunks as BlobPart[]).text());
const { run } = (await import(module)) as { run: (input: unknown) => unknown };
process.stdout.write(JSON.stringify(await run(input)));
