import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { sumOfProducts, total } from "../../../src/core/exact.ts";
import {
  addedBy,
  type Block,
  carriedOver,
  closePeriod,
  drawnFrom,
  endBlocks,
  followUsage,
  limitWith,
} from "../../../src/core/pricing/blocks.ts";
import { UNLIMITED } from "../../../src/core/pricing/model.ts";
import { closeBlockPeriod } from "../../../src/core/pricing/block-periods.ts";
import { HeldReference } from "./held-blocks.reference.ts";
import "../../support/property-seed.ts";

const at = (ms: number) => new Date(ms);
const block = (id: string, left: number, expiresAt: number | null = null): Block => ({
  id,
  left,
  from: at(0),
  expiresAt: expiresAt === null ? null : at(expiresAt),
  createdAt: at(0),
  drawn: null,
  kept: 0,
});
const asPeriodBlock = (one: Block) => ({ origin: "given" as const, resetsLeft: null, ...one });

/** A level under the functions of blocks.ts, driven as the server drives them. */
class Level {
  granted: number;
  consumed = 0;
  held = 0;
  blocks: readonly Block[] = [];

  constructor(granted: number) {
    this.granted = granted;
  }

  end(ids: readonly string[], moment: number): void {
    this.blocks = endBlocks(this.granted, this, this.blocks, { ending: new Set(ids), at: at(moment) }).blocks;
  }

  follow(now: number): void {
    for (const { block, amount, kept } of followUsage(this.granted, this, this.blocks, at(now))) {
      const after = { ...block, drawn: (block.drawn ?? 0) + amount, kept };
      this.blocks = this.blocks.map((one) => (one === block ? after : one));
    }
  }

  reset(now: number): void {
    const { consumed, held, granted } = this;
    const level = { consumed, held, anchor: null, period: null };
    const end = { at: at(now), startsAt: at(now + 1), after: at(now) };
    this.blocks = closeBlockPeriod(level, this.blocks.map(asPeriodBlock), { granted, terms: undefined }, end).left;
    this.consumed = 0;
  }
}

const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("give" as const),
      amount: fc.integer({ min: 1, max: 9 }),
      from: fc.nat(4),
      lasts: fc.option(fc.integer({ min: 1, max: 12 })),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("consume" as const), amount: fc.nat(9) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("hold" as const), amount: fc.nat(9) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("settle" as const), which: fc.nat(), amount: fc.nat(9) }) },
  fc.record({ kind: fc.constant("giveBack" as const), amount: fc.nat(9) }),
  fc.record({ kind: fc.constant("grant" as const), amount: fc.nat(12) }),
  fc.record({ kind: fc.constant("revoke" as const), which: fc.nat() }),
  fc.record({ kind: fc.constant("reset" as const) }),
  fc.record({ kind: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 5 }) }),
);

describe("blocks", () => {
  it("give the limits of the reference in every history", () => {
    fc.assert(
      fc.property(fc.nat(12), fc.array(step, { minLength: 5, maxLength: 40, size: "max" }), (granted, steps) => {
        const [level, reference] = [new Level(granted), new HeldReference()];
        reference.granted = granted;
        const holds: number[] = [];
        let now = 0;
        const usage = () => reference.consumed + reference.held;
        const change = (values: Partial<Pick<Level, "granted" | "consumed" | "held">>) => {
          for (const side of [level, reference]) Object.assign(side, values);
        };
        const follow = (moment: number) => {
          for (const side of [level, reference]) side.follow(moment);
        };
        const isRunning = ({ id }: { id: string }) => level.blocks.some((one) => one.id === id && one.drawn === null);
        for (const [index, one] of steps.entries()) {
          if (one.kind === "give") {
            const [from, id] = [now + one.from, String(index + 100)];
            const expiresAt = one.lasts === null ? Infinity : from + one.lasts;
            level.blocks = [
              ...level.blocks,
              { ...block(id, one.amount, one.lasts === null ? null : expiresAt), from: at(from), createdAt: at(now) },
            ];
            reference.blocks.push({
              id,
              amount: one.amount,
              from,
              expiresAt,
              createdAt: now,
              before: 0,
              fixed: null,
              isGone: false,
            });
          } else if (one.kind === "consume") {
            const amount = Math.min(one.amount, Math.max(0, reference.limit(now) - usage()));
            change({ consumed: level.consumed + amount });
          } else if (one.kind === "hold") {
            const amount = Math.min(one.amount, Math.max(0, reference.limit(now) - usage()));
            holds.push(amount);
            change({ held: level.held + amount });
          } else if (one.kind === "settle") {
            const [held = 0] = holds.splice(one.which % Math.max(1, holds.length), 1);
            const amount = Math.min(held, one.amount);
            change({ held: level.held - held, consumed: level.consumed + amount });
          } else if (one.kind === "giveBack") {
            change({ consumed: Math.max(0, level.consumed - one.amount) });
          } else if (one.kind === "grant") {
            change({ granted: one.amount });
          } else if (one.kind === "revoke") {
            const running = reference.blocks.filter(isRunning);
            const found = running[one.which % Math.max(1, running.length)];
            if (found === undefined) continue;
            level.end([found.id], now + 1);
            reference.end(found.id, now);
          } else if (one.kind === "reset") {
            const drawn = level.blocks.reduce((sum, { drawn: fixed }) => sum + (fixed ?? 0), 0);
            // Draws of ended blocks that were given back end with the period.
            const isLasting = drawn <= Math.max(0, level.consumed - level.granted);
            const fits = usage() <= reference.limit(now) && isLasting;
            level.reset(now);
            reference.reset(now);
            reference.follow(now);
            // Holds go on, and never pass the limit because of a reset.
            if (fits) expect(limitWith(level.granted, level.blocks, at(now))).toBeGreaterThanOrEqual(level.held);
          } else {
            const until = now + one.ms;
            const due = reference.blocks
              .filter((each) => isRunning(each) && each.expiresAt <= until)
              .toSorted((a, b) => a.expiresAt - b.expiresAt);
            for (const each of due) {
              // Of several that end in one millisecond, each is fixed over what was drawn before all of them.
              if (level.blocks.some(({ id, drawn }) => id === each.id && drawn !== null)) continue;
              const together = due.filter(({ expiresAt }) => expiresAt === each.expiresAt);
              follow(each.expiresAt - 1);
              const limit = reference.limit(each.expiresAt - 1);
              for (const other of together) reference.end(other.id, each.expiresAt - 1);
              level.end(
                together.map(({ id }) => id),
                each.expiresAt,
              );
              // An expiry takes exactly what was neither drawn nor held: it never brings usage above the limit.
              const after = limitWith(level.granted, level.blocks, at(each.expiresAt));
              if (usage() <= limit) expect(after).toBeGreaterThanOrEqual(usage());
            }
            now = until;
          }
          const before = limitWith(level.granted, level.blocks, at(now));
          follow(now);
          // The end of a hold takes only what nobody uses.
          if (usage() <= before) {
            expect(limitWith(level.granted, level.blocks, at(now))).toBeGreaterThanOrEqual(usage());
          }
          if (level.held === 0) expect(level.blocks.some(({ kept }) => kept > 0)).toBe(false);
          expect(limitWith(level.granted, level.blocks, at(now))).toBe(reference.limit(now));
          expect(new Map(drawnFrom(level.granted, level.consumed, level.blocks, at(now)))).toEqual(
            reference.drawn(now),
          );
        }
      }),
      { numRuns: 500 },
    );
  });

  it("keep what open holds need of them over their end, and give it up when the holds end with less", () => {
    const [level, held] = [new Level(200), 80];
    Object.assign(level, { consumed: 200, held, blocks: [block("a", 100, 10)] });
    level.end(["a"], 10);
    expect(limitWith(level.granted, level.blocks, at(10))).toBe(280);
    const settled = (consumed: number) => {
      const after = Object.assign(new Level(200), { consumed, held: 0, blocks: level.blocks });
      after.follow(11);
      return [limitWith(200, after.blocks, at(11)), after.blocks[0]?.drawn, after.blocks[0]?.kept];
    };
    expect(settled(280)).toEqual([280, 80, 0]);
    expect(settled(230)).toEqual([230, 30, 0]);
    expect(settled(200)).toEqual([200, 0, 0]);
    // An upgrade covers a part, which leaves the limit.
    const richer = Object.assign(new Level(250), { consumed: 200, held, blocks: level.blocks });
    richer.follow(11);
    expect(limitWith(250, richer.blocks, at(11))).toBe(280);
  });

  it("are drawn by their end, those without one last", () => {
    const blocks = [block("never", 10), block("tenth", 10, 10), block("fifth", 10, 5)];
    expect([...drawnFrom(0, 25, blocks, at(1))]).toEqual([
      ["fifth", 10],
      ["tenth", 10],
      ["never", 5],
    ]);
  });

  it("give back what an upgrade within the period covers", () => {
    expect(drawnFrom(200, 250, [block("a", 100)], at(1)).get("a")).toBe(50);
    expect(drawnFrom(500, 250, [block("a", 100)], at(1)).size).toBe(0);
    expect(limitWith(500, [block("a", 100)], at(1))).toBe(600);
  });

  it("rest while the limit is unlimited, a boolean or not granted", () => {
    for (const granted of [UNLIMITED, true, undefined]) {
      expect(limitWith(granted, [block("a", 5)], at(1))).toBe(granted);
      expect(drawnFrom(granted, 1e9, [block("a", 5)], at(1)).size).toBe(0);
    }
  });

  it("add in exact decimals", () => {
    const tenths = Array.from({ length: 10 }, (_, i) => block(String(i), 0.1));
    expect(addedBy(tenths, at(1))).toBe(1);
    expect(limitWith(12_345_678, [block("a", 0.000_000_01)], at(1))).toBe(Number("12345678.00000001"));
    expect(closePeriod(0.1, 0.3, [block("a", 0.3)], at(1)).blocks[0]?.left).toBe(0.1);
  });

  it("carry what was not used, and never more than the maximum together", () => {
    expect(carriedOver(200, 30, 0, 100)).toBe(100);
    expect(carriedOver(200, 30, 60, 100)).toBe(40);
    expect(carriedOver(200, 250, 0, 100)).toBe(0);
    expect(carriedOver(200, 30, 500, null)).toBe(170);
    expect(carriedOver(UNLIMITED, 30, 0, null)).toBe(0);
  });
});

describe("exact sums", () => {
  it("equal those of whole numbers a thousandth as large", () => {
    const thousandths = fc.integer({ min: -1e9, max: 1e9 });
    fc.assert(
      fc.property(fc.array(thousandths, { maxLength: 20 }), (values) => {
        expect(total(values.map((value) => value / 1000))).toBe(values.reduce((sum, value) => sum + value, 0) / 1000);
      }),
    );
  });

  it("round once", () => {
    expect(sumOfProducts([[0.1, 3]])).toBe(0.3);
    expect(
      sumOfProducts([
        [0.1, 1],
        [0.2, 1],
      ]),
    ).toBe(0.3);
    expect(
      sumOfProducts([
        [1e-7, 1e7],
        [5e-324, 1],
      ]),
    ).toBe(1);
  });
});
