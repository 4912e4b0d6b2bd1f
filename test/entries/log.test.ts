import { expect, it, vi } from "vitest";
import { createLog } from "../../src/entries/process/log.ts";

/** Returns the one line that this writes. */
function lineOf(write: (log: ReturnType<typeof createLog>) => void): string {
  const written = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  try {
    write(createLog("info", "rest"));
    return written.mock.calls.map(([text]) => String(text)).join("");
  } finally {
    written.mockRestore();
  }
}

it("a line is one JSON object with level, time, process and message, and with what it is about", () => {
  const line = lineOf((log) =>
    log("warn", "request", { status: 503 }, { request: "r-1", key: "abc", user: undefined }),
  );
  expect(line.endsWith("}\n")).toBe(true);
  expect(JSON.parse(line)).toEqual({
    level: "warn",
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/),
    process: "rest",
    message: "request",
    request: "r-1",
    key: "abc",
    detail: { status: 503 },
  });
});

it("what is below the level is not written", () => {
  expect(lineOf((log) => log("debug", "request"))).toBe("");
});

it("a failed statement is logged without the values that it was to write", () => {
  const error = new Error("Failed query: insert into users values ($1, $2)\nparams: ada,pbkdf2x$6$hash\nand more");
  const { detail } = JSON.parse(lineOf((log) => log("error", "unexpected error", error))) as {
    detail: { message: string; stack: string[] };
  };
  expect(detail.message).toBe("Failed query: insert into users values ($1, $2)");
  expect(detail.stack[0]).toMatch(/^at /);
  expect(JSON.stringify(detail)).not.toMatch(/pbkdf2x|and more/);
});

it.each([
  ["usr_0123456789abcdef", "an API key"],
  ["org_0123456789abcdef", "an API key"],
  ["sesame@db.example", "the password of a database"],
  ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl", "a token"],
  ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "a webhook's secret"],
])("%s, which is %s, is struck out wherever it stands", (secret) => {
  const text = secret.includes("@") ? `postgres://ada:${secret}/rates` : secret;
  const line = lineOf((log) => log("info", `saw ${text}`, { nested: [text] }, { about: text }));
  expect(line).not.toContain(secret.split("@")[0]);
  expect(() => JSON.parse(line)).not.toThrow();
});
