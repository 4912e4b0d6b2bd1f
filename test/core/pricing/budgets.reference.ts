/* Reference of budgets, call by call: every counted amount is kept, and each budget sums up those that it counts. */

export interface ReferenceBudget {
  name: string;
  /** Ids; `*` for each one. */
  spender: string[];
  amount: number;
  /** Length of a window in milliseconds, from 1970. Infinity: one window. */
  length: number;
  isVendors: boolean;
  warns: boolean;
}

interface Counted {
  spender: string[];
  amount: number;
  at: number;
  isHeld: boolean;
}

export class Reference {
  budgets: ReferenceBudget[] = [];
  counted: Counted[] = [];

  /** The budgets that count a spender: per origin and depth, those that no other pattern beats. */
  fitting(spender: readonly string[]): ReferenceBudget[] {
    const fits = this.budgets.filter(
      (one) => one.spender.length <= spender.length && one.spender.every((id, i) => id === "*" || id === spender[i]),
    );
    const rank = ({ spender: ids }: ReferenceBudget) => ids.map((id) => (id === "*" ? "0" : "1")).join("");
    return fits.filter((one) =>
      fits.every(
        (other) =>
          other.isVendors !== one.isVendors || other.spender.length !== one.spender.length || rank(other) <= rank(one),
      ),
    );
  }

  used(budget: ReferenceBudget, spender: readonly string[], now: number): number {
    const windowOf = (at: number) => (budget.length === Infinity ? 0 : Math.floor(at / budget.length));
    const depth = budget.spender.length;
    const own = ({ spender: other }: Counted) => spender.slice(0, depth).every((id, i) => id === other[i]);
    return this.counted
      .filter((one) => own(one) && this.fitting(one.spender).includes(budget))
      .filter(({ at, isHeld }) => isHeld || windowOf(at) === windowOf(now))
      .reduce((sum, { amount }) => sum + amount, 0);
  }

  /** Name of the budget that denies an amount; undefined, and counted, if none does. */
  take(spender: string[], amount: number, now: number, isHeld = false): string | undefined {
    const denying = this.fitting(spender)
      .toSorted((a, b) => a.spender.length - b.spender.length || Number(b.isVendors) - Number(a.isVendors))
      .find((one) => !one.warns && this.used(one, spender, now) + amount > one.amount);
    if (denying === undefined) this.counted.push({ spender, amount, at: now, isHeld });
    return denying?.name;
  }
}
