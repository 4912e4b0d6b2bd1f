import { describe, expect, it } from "vitest";
import { type Document, smallInstallation } from "../../support/space-dump.ts";
import { plan, type Planned } from "./plan.ts";

/* One odd value in a dump ends no import, and is named in its report. Source: files-and-migration §5. */

type Path = readonly [collection: string, index: number, ...keys: (string | number)[]];

/** Paths of every value in the documents of an installation, containers included. */
function* pathsOf(value: unknown, path: (string | number)[] = []): Generator<(string | number)[]> {
  if (path.length > 2) yield path;
  if (Array.isArray(value)) for (const [index, each] of value.entries()) yield* pathsOf(each, [...path, index]);
  else if (value !== null && typeof value === "object" && Object.getPrototypeOf(value) === Object.prototype) {
    for (const [key, each] of Object.entries(value)) yield* pathsOf(each, [...path, key]);
  }
}

const kindOf = (value: unknown): string => (value instanceof Date ? "date" : typeof value);

/** True if SPACE writes values of this kind here: another one is another fact, and not an odd value. */
function isMeant(path: Path, odd: unknown): boolean {
  let value: unknown = smallInstallation();
  for (const key of path) value = (value as Record<string | number, unknown>)[key];
  const field = String(path.at(-1));
  const isDate = /(?:createdAt|updatedAt|Date|resetTimeStamp)$/.test(field);
  // A price may be a text, such as "Contact sales".
  if (field === "price" && typeof odd === "string") return true;
  return typeof odd !== "object" ? typeof value === typeof odd : kindOf(odd) === "date" && isDate;
}

function replaced(path: Path, odd: unknown): ReturnType<typeof smallInstallation> {
  const installation = smallInstallation();
  let place = installation as unknown as Record<string | number, unknown>;
  for (const key of path.slice(0, -1)) place = place[key] as Record<string | number, unknown>;
  place[path.at(-1) ?? ""] = odd;
  return installation;
}

/** Values of one installation that the next one shares would stay odd, for other files too. */
it("an installation shares no containers with the next", () => {
  const usual = JSON.stringify(smallInstallation());
  for (const path of PATHS) replaced(path, 7);
  expect(JSON.stringify(smallInstallation())).toBe(usual);
});

const rowsOf = ({ batches }: Planned) => JSON.stringify(batches);
const PATHS = [...pathsOf(smallInstallation())] as unknown as Path[];
const noPrototype = Object.assign(Object.create(null) as Document, { $inc: 1 });
const ODD: Record<string, unknown> = {
  "a map": { $inc: 1 },
  "a map without a prototype": noPrototype,
  "a list": [1, "two"],
  "a number": 7,
  "a boolean": true,
  "a text": "odd",
  "an empty text": "",
  "a date": new Date("2025-01-01T00:00:00Z"),
  null: null,
};

const findingsOf = ({ report: { changed, left } }: Planned) => JSON.stringify([changed, left]);

describe.each(Object.entries(ODD))("%s in place of any value", (_, odd) => {
  it("ends no plan, and is named unless it could be meant", async () => {
    const usual = await plan(smallInstallation());
    const silent: string[] = [];
    for (const path of PATHS) {
      const planned = await plan(replaced(path, odd));
      const isSilent = findingsOf(planned) === findingsOf(usual) && rowsOf(planned) !== rowsOf(usual);
      // An empty text and null say that there is none.
      if (isSilent && odd !== null && odd !== "" && !isMeant(path, odd)) silent.push(path.join("."));
    }
    expect(silent).toEqual([]);
  });
});
