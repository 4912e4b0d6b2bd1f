/** Tokenizer shared by feature expressions and price formulas. */

export interface Token {
  readonly kind: "number" | "string" | "name" | "variable" | "operator" | "unknown" | "end";
  /** Text of the token; for variables without `#`. */
  readonly text: string;
  /** Offsets in the source; `end` is exclusive. */
  readonly start: number;
  readonly end: number;
  /** Value of a number or string. */
  readonly value?: number | string;
}

/** A text that is not part of its language. `offset` points into that text. */
export class SyntaxRefusal extends Error {
  readonly offset: number;
  constructor(message: string, offset: number) {
    super(message);
    this.offset = offset;
  }
}

const TOKEN =
  /(?<blank>[\s\uFEFF]+)|(?<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)|(?<string>'(?:[^'\\\r\n]|\\(?:\r\n|.))*'|"(?:[^"\\\r\n]|\\(?:\r\n|.))*")|(?<unclosed>'(?:[^'\\\r\n]|\\(?:\r\n|.))*|"(?:[^"\\\r\n]|\\(?:\r\n|.))*)|(?<name>[\p{L}_$][\p{L}\p{N}_$]*)|#(?<variable>[\p{L}_$][\p{L}\p{N}_$]*)|(?<update>--|\+\+)|(?<operator>===|!==|==|!=|<=|>=|&&|\|\||[-+*/%<>!?:()[\].,])|(?<unknown>.)/suy;

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", v: "\v", 0: "\0" };

const ESCAPE = /\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]+)\}|(\r\n|[\s\S]))/g;
const LINE_BREAK = /^(?:\r\n|[\r\n\u2028\u2029])$/;
const LARGEST_CODE_POINT = 0x10_ff_ff;

/** Resolves the escapes of a string as JavaScript does. Undefined for one that JavaScript's strict mode rejects. */
function unescape(body: string): string | undefined {
  if (!body.includes("\\")) return body;
  let isValid = true;
  const text = body.replace(ESCAPE, (_, four, two, any, single: string | undefined, offset: number) => {
    if (single === undefined) {
      const code = parseInt(String(four ?? two ?? any), 16);
      if (code <= LARGEST_CODE_POINT) return String.fromCodePoint(code);
      isValid = false;
      return "";
    }
    if (LINE_BREAK.test(single)) return "";
    // `\0` is a null character, but not as the start of an octal number. `\x4` and `\u12` are cut short.
    const isOctal = /^[1-9]$/.test(single) || (single === "0" && /^\d/.test(body.slice(offset + 2)));
    if (isOctal || single === "x" || single === "u") isValid = false;
    return Object.hasOwn(ESCAPES, single) ? (ESCAPES[single] ?? single) : single;
  });
  return isValid ? text : undefined;
}

/**
 * Splits `text` into tokens, of which the last has the kind `end`. Never throws: unrecognized text has the kind
 * `unknown`.
 */
export function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  const pattern = new RegExp(TOKEN);
  // End of the region in which each quote is known to be unclosed. Searching again from every escaped quote would take
  // quadratic time.
  const unclosedUntil = new Map<string, number>();
  let start = 0;
  while (start < text.length) {
    const first = text.charAt(start);
    const isUnclosed = (first === "'" || first === '"') && start < (unclosedUntil.get(first) ?? 0);
    pattern.lastIndex = start;
    const groups = isUnclosed ? undefined : pattern.exec(text)?.groups;
    if (groups?.["unclosed"] !== undefined) unclosedUntil.set(first, pattern.lastIndex);
    const end = groups === undefined || groups["unclosed"] !== undefined ? start + 1 : pattern.lastIndex;
    if (groups?.["blank"] === undefined) tokens.push(tokenOf(groups ?? {}, text, start, end));
    start = end;
  }
  tokens.push({ kind: "end", text: "", start: text.length, end: text.length });
  return tokens;
}

function tokenOf(
  groups: Readonly<Record<string, string | undefined>>,
  text: string,
  start: number,
  end: number,
): Token {
  const { number, string, name, variable, operator } = groups;
  if (name !== undefined) return { kind: "name", text: name, start, end };
  if (operator !== undefined) return { kind: "operator", text: operator, start, end };
  if (string !== undefined) {
    const value = unescape(string.slice(1, -1));
    return value === undefined
      ? { kind: "unknown", text: string, start, end }
      : { kind: "string", text: string, start, end, value };
  }
  if (number !== undefined) {
    // Reject `012`, which is octal in some languages, and `1a`, which is no number.
    const clean = !/^0\d/.test(number) && !/^[\p{L}_$\d]/u.test(text.slice(end, end + 2));
    return { kind: clean ? "number" : "unknown", text: number, start, end, value: Number(number) };
  }
  if (variable !== undefined) return { kind: "variable", text: variable, start, end };
  return { kind: "unknown", text: text.slice(start, end), start, end };
}
