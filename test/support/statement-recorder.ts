import { appendFileSync, mkdirSync } from "node:fs";
import { relative } from "node:path";
import { afterAll, expect } from "vitest";
import { type Statement, statementPrototype } from "./driver-statements.ts";
import { RECORDED, type Recorded, ROOT } from "./recorded-statements.ts";

/*
 * Records the text of each statement that a test file sends, for test/db/statement-shapes.shape.test.ts.
 */

const STATEMENTS = Symbol.for("faregate.statements");
const SEVERAL = /^\{[^{}]*[^\\],/;

const prototype: typeof statementPrototype & { [STATEMENTS]?: Map<string, Recorded> } = statementPrototype;
const statements = (prototype[STATEMENTS] ??= wrap());

function wrap(): Map<string, Recorded> {
  const found = new Map<string, Recorded>();
  const { handle } = prototype;
  prototype.handle = function (this: Statement) {
    const sending = handle.call(this);
    const record = () => note(found, this);
    // The inherited method: the driver's own would send it again.
    Promise.prototype.then.call(this, record, record);
    return sending;
  };
  return found;
}

function note(found: Map<string, Recorded>, { string: text, parameters = [] }: Statement): void {
  if (text === undefined) return;
  let recorded = found.get(text);
  if (recorded === undefined) {
    recorded = { text, several: [] };
    found.set(text, recorded);
  }
  for (const [i, value] of parameters.entries()) {
    if (recorded.several.includes(i + 1)) continue;
    const isSeveral = Array.isArray(value) ? value.length !== 1 : typeof value === "string" && SEVERAL.test(value);
    if (isSeveral) recorded.several.push(i + 1);
  }
}

afterAll(() => {
  mkdirSync(RECORDED, { recursive: true });
  const lines = [...statements.values(), { file: relative(ROOT, expect.getState().testPath ?? "") }];
  appendFileSync(`${RECORDED}/${process.pid}.jsonl`, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  statements.clear();
});
