import * as fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import {
  addPeriod,
  END_OF_TIME,
  isBelowOneSecond,
  lastBoundary,
  nextBoundary,
  type Renewal,
  renewedBillingEnd,
  runningDays,
} from "../../src/core/period.ts";
import { PERIOD_UNITS } from "../../src/core/pricing/model.ts";
import "../support/property-seed.ts";

const at = (text: string): Date => new Date(text);

describe("addPeriod", () => {
  it.each([
    ["2025-01-31T10:00:00.000Z", 1, "MONTH", 1, "2025-02-28T10:00:00.000Z"],
    ["2024-01-31T10:00:00.000Z", 1, "MONTH", 1, "2024-02-29T10:00:00.000Z"],
    ["2025-01-31T10:00:00.000Z", 1, "MONTH", 2, "2025-03-31T10:00:00.000Z"],
    ["2025-01-31T10:00:00.000Z", 3, "MONTH", 1, "2025-04-30T10:00:00.000Z"],
    ["2024-02-29T00:00:00.000Z", 1, "YEAR", 1, "2025-02-28T00:00:00.000Z"],
    ["2024-02-29T00:00:00.000Z", 1, "YEAR", 4, "2028-02-29T00:00:00.000Z"],
    ["2025-12-31T23:59:59.999Z", 1, "MONTH", 2, "2026-02-28T23:59:59.999Z"],
    ["2025-03-30T00:30:00.000Z", 1, "DAY", 1, "2025-03-31T00:30:00.000Z"],
    ["2025-03-30T00:30:00.000Z", 2, "HOUR", 3, "2025-03-30T06:30:00.000Z"],
    ["2025-03-30T00:30:00.000Z", 90, "MIN", 1, "2025-03-30T02:00:00.000Z"],
    ["2025-03-30T00:30:00.000Z", 0.5, "SEC", 1, "2025-03-30T00:30:00.500Z"],
    ["2025-02-01T00:00:00.000Z", 0.5, "MONTH", 1, "2025-02-15T00:00:00.000Z"],
    ["2025-02-01T00:00:00.000Z", 100_000_000, "YEAR", 1, "9999-12-31T23:59:59.999Z"],
    ["2025-02-01T00:00:00.000Z", 1e300, "SEC", 1, "9999-12-31T23:59:59.999Z"],
  ] as const)("%s + %d %s × %d is %s", (from, value, unit, times, wanted) => {
    expect(addPeriod(at(from), { value, unit }, times).toISOString()).toBe(wanted);
  });

  it("counts once when nothing else is said", () => {
    expect(addPeriod(at("2025-01-31T00:00:00Z"), { value: 1, unit: "MONTH" })).toEqual(at("2025-02-28T00:00:00Z"));
  });
});

describe("nextBoundary", { timeout: 30_000 }, () => {
  it("returns to the day of the anchor after a short month", () => {
    const anchor = at("2025-01-31T09:00:00Z");
    const period = { value: 1, unit: "MONTH" } as const;
    const found: string[] = [];
    let after = anchor;
    for (let step = 0; step < 4; step++) {
      after = nextBoundary(anchor, period, after);
      found.push(after.toISOString().slice(0, 10));
    }
    expect(found).toEqual(["2025-02-28", "2025-03-31", "2025-04-30", "2025-05-31"]);
  });

  it("is strictly after, and never the anchor itself", () => {
    const anchor = at("2025-01-01T00:00:00Z");
    const period = { value: 1, unit: "DAY" } as const;
    expect(nextBoundary(anchor, period, at("2025-01-02T00:00:00Z"))).toEqual(at("2025-01-03T00:00:00Z"));
    expect(nextBoundary(anchor, period, at("2020-01-02T00:00:00Z"))).toEqual(at("2025-01-02T00:00:00Z"));
  });

  it("counts seconds over decades in no time", () => {
    const anchor = at("1990-01-01T00:00:00.250Z");
    const before = process.cpuUsage();
    for (let round = 0; round < 1_000; round++)
      nextBoundary(anchor, { value: 1, unit: "SEC" }, at("2025-06-01T12:00:00Z"));
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(1000);
    expect(nextBoundary(anchor, { value: 1, unit: "SEC" }, at("2025-06-01T12:00:00Z"))).toEqual(
      at("2025-06-01T12:00:00.250Z"),
    );
  });

  it.each([5e-324, 1e-320, 1e-20, 1e-9, 0.999, -1, NaN])(
    "a stored period of %d seconds, which is refused today, is read as one second",
    (value) => {
      const [anchor, after] = [at("2025-01-01T00:00:00Z"), at("2026-01-01T00:00:00.500Z")];
      expect(nextBoundary(anchor, { value, unit: "SEC" }, after)).toEqual(at("2026-01-01T00:00:01Z"));
      expect(lastBoundary(anchor, { value, unit: "SEC" }, after)).toEqual(at("2026-01-01T00:00:00Z"));
    },
  );

  it("ends for every number and unit, at the latest at the end of time", () => {
    const moment = fc.date({ min: at("1970-01-01T00:00:00Z"), max: new Date(END_OF_TIME), noInvalidDate: true });
    const value = fc.oneof(
      fc.double({ min: 5e-324, max: 1e308, noNaN: true }),
      fc.integer({ min: -320, max: 308 }).map((exponent) => 10 ** exponent),
    );
    fc.assert(
      fc.property(moment, value, fc.constantFrom(...PERIOD_UNITS), moment, (anchor, number, unit, after) => {
        const next = nextBoundary(anchor, { value: number, unit }, after);
        expect(next.getTime() > after.getTime() || next.getTime() === END_OF_TIME).toBe(true);
      }),
    );
  });

  it.each([
    ["SEC", 1, false],
    ["SEC", 0.999, true],
    ["MIN", 1 / 60, false],
    ["MIN", 0.01, true],
    ["HOUR", 1e-4, true],
    ["DAY", 1e-5, true],
    ["MONTH", 1e-7, true],
    ["MONTH", 1e-6, false],
    ["YEAR", 1e-8, true],
    ["YEAR", 1e-7, false],
    ["SEC", NaN, true],
    ["SEC", Infinity, false],
  ] as const)("a period in %s of value %d is below one second: %s", (unit, value, isBelow) => {
    expect(isBelowOneSecond({ unit, value })).toBe(isBelow);
  });

  it("is the first multiple of the period after the given moment, whatever they are", () => {
    const moment = fc.date({ min: at("1990-01-01T00:00:00Z"), max: at("2090-01-01T00:00:00Z"), noInvalidDate: true });
    const period = fc.record({
      value: fc.oneof(fc.integer({ min: 1, max: 500 }), fc.double({ min: 1, max: 50, noNaN: true })),
      unit: fc.constantFrom(...PERIOD_UNITS),
    });
    const share = fc.double({ min: 0, max: 60, noNaN: true });
    fc.assert(
      fc.property(moment, period, share, (anchor, each, periods) => {
        const span = addPeriod(anchor, each).getTime() - anchor.getTime();
        const after = new Date(anchor.getTime() + Math.floor(span * periods));
        fc.pre(after.getUTCFullYear() < 9999);
        let wanted = addPeriod(anchor, each, 1);
        for (let times = 2; wanted.getTime() <= after.getTime(); times++) wanted = addPeriod(anchor, each, times);
        expect(nextBoundary(anchor, each, after)).toEqual(wanted);
      }),
      { numRuns: 500 },
    );
  });
});

describe("the process's local time", () => {
  const before = process.env["TZ"];
  afterEach(() => {
    if (before === undefined) delete process.env["TZ"];
    else process.env["TZ"] = before;
  });

  it("whatever the zone of the process, every boundary is the same moment", () => {
    // Odd minutes around daylight-saving changes, Apia's skipped day, and ends of months.
    const moments = ["2011-12-29T10:30:00Z", "2018-11-04T02:59:59Z", "2024-01-31T23:30:00Z", "2025-03-30T00:59:00Z"];
    const periods = PERIOD_UNITS.flatMap((unit) => [1, 7, 1.5].map((value) => ({ unit, value })));
    const all = () =>
      moments.flatMap((anchor) =>
        periods.flatMap((period) =>
          [0, 1, 3, 90, 400].map((days) =>
            nextBoundary(at(anchor), period, new Date(at(anchor).getTime() + days * 86_400_000)).toISOString(),
          ),
        ),
      );
    process.env["TZ"] = "UTC";
    const inUtc = all();
    for (const zone of [
      "America/Sao_Paulo",
      "Europe/Madrid",
      "Pacific/Apia",
      "Asia/Kathmandu",
      "Australia/Lord_Howe",
    ]) {
      process.env["TZ"] = zone;
      expect(at("2025-01-15T12:00:00Z").getTimezoneOffset(), zone).not.toBe(0);
      expect(all(), zone).toEqual(inUtc);
    }
  });
});

describe("runningDays", () => {
  it.each([
    ["a first month", "2025-01-31T10:00:00.000Z", "2025-02-28T10:00:00.000Z", 1, "MONTH", 30, 28],
    ["a later month", "2025-01-31T10:00:00.000Z", "2025-03-31T10:00:00.000Z", 1, "MONTH", 30, 31],
    [
      "later days that sum up to renewalDays",
      "2025-01-01T00:00:00.000Z",
      "2025-01-31T00:00:00.000Z",
      10,
      "DAY",
      30,
      10,
    ],
    ["a subscription of the 31st", "2025-02-28T10:00:00.000Z", "2025-03-31T10:00:00.000Z", 1, "MONTH", 31, 31],
    ["a subscription's yearly period", "2025-02-28T10:00:00.000Z", "2026-03-01T10:00:00.000Z", 1, "YEAR", 366, 366],
    ["a given end", "2025-01-01T00:00:00.000Z", "2025-02-11T00:00:00.000Z", 1, "MONTH", 30, 10],
    ["less than a day", "2025-01-01T00:00:00.000Z", "2025-01-01T01:00:00.000Z", 1, "MONTH", 1, 1],
  ] as const)("counts %s", (_, startDate, endDate, renewalValue, renewalUnit, renewalDays, wanted) => {
    expect(
      runningDays({ startDate: at(startDate), endDate: at(endDate), renewalValue, renewalUnit, renewalDays }),
    ).toBe(wanted);
  });
});

describe("renewedBillingEnd", () => {
  const DAY_MS = 86_400_000;
  const later = (moment: Date, milliseconds: number) => new Date(moment.getTime() + milliseconds);
  const monthly = (endDate: string): Renewal => ({
    startDate: at("2025-01-31T10:00:00.000Z"),
    endDate: at(endDate),
    renewalDays: 30,
    renewalValue: 1,
    renewalUnit: "MONTH",
  });

  it.each([
    ["just after the end", "2025-02-28T10:00:00.000Z", "2025-02-28T10:00:00.001Z", "2025-03-31T10:00:00.000Z", 31],
    ["just before a boundary", "2025-02-28T10:00:00.000Z", "2025-03-31T09:59:59.999Z", "2025-03-31T10:00:00.000Z", 31],
    ["on a boundary", "2025-02-28T10:00:00.000Z", "2025-03-31T10:00:00.000Z", "2025-04-30T10:00:00.000Z", 30],
    ["just after a boundary", "2025-02-28T10:00:00.000Z", "2025-03-31T10:00:00.001Z", "2025-04-30T10:00:00.000Z", 30],
    ["after a year", "2025-02-28T10:00:00.000Z", "2026-02-28T10:00:00.000Z", "2026-03-31T10:00:00.000Z", 31],
    ["from a given end", "2025-02-11T00:00:00.000Z", "2025-02-11T00:00:00.001Z", "2025-02-28T10:00:00.000Z", 28],
  ] as const)("on the calendar, %s", (_, endDate, now, wanted, days) => {
    const renewal = monthly(endDate);
    const renewed = renewedBillingEnd(renewal, at(now));
    expect(renewed.toISOString()).toBe(wanted);
    expect(runningDays({ ...renewal, endDate: renewed })).toBe(days);
  });

  it.each([
    [1, 1],
    [10 * DAY_MS - 1, 1],
    [10 * DAY_MS, 2],
    [10 * DAY_MS + 1, 2],
    [30 * DAY_MS, 4],
  ])("by days, %d ms after the end, is %d periods later", (late, periods) => {
    const endDate = at("2025-01-31T10:00:00.000Z");
    const renewal = { startDate: endDate, endDate, renewalDays: 10, renewalValue: null, renewalUnit: null };
    expect(renewedBillingEnd(renewal, later(endDate, late))).toEqual(later(endDate, periods * 10 * DAY_MS));
  });

  it("late and once, as each time in time", () => {
    const start = fc.date({ min: at("2000-01-01T00:00:00Z"), max: at("2030-01-01T00:00:00Z"), noInvalidDate: true });
    const period = fc.record({
      value: fc.integer({ min: 1, max: 40 }),
      unit: fc.constantFrom("DAY" as const, "MONTH" as const, "YEAR" as const, null),
    });
    fc.assert(
      fc.property(
        start,
        period,
        fc.integer({ min: 1, max: 12 }),
        fc.constantFrom(-1, 0, 1),
        (startDate, each, n, ms) => {
          const { value, unit } = each;
          const isByDays = unit === null;
          const renewal: Renewal = {
            startDate,
            endDate: addPeriod(startDate, { value, unit: unit ?? "DAY" }),
            renewalDays: isByDays ? value : 30,
            renewalValue: isByDays ? null : value,
            renewalUnit: unit,
          };
          const now = later(addPeriod(startDate, { value, unit: unit ?? "DAY" }, n + 1), ms);
          let { endDate } = renewal;
          for (; endDate <= now;) endDate = renewedBillingEnd({ ...renewal, endDate }, later(endDate, 1));
          expect(renewedBillingEnd(renewal, now)).toEqual(endDate);
        },
      ),
    );
  });
});
