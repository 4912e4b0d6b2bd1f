import type { BenchRow } from "./pricing.ts";
import { type Pair, sideBySide } from "./side-by-side.ts";

/* Budgets beside plain consumption, by processor time. Source: contract budgets §4. */

const BODY = '{"meter-calls":1}';
/** Users of the contracts that the rows are about. */
const [HOT, WIDE] = [1, 2];
const FITTING = { each: "*", agent: "*/*", run: "*/*/*" };
const SPENDERS = 100_000;
const BATCH = 1000;

/** Measures consumption within three budgets against plain consumption, and one balance among 100,000 against one of few. */
export function run({ quick = false } = {}): Promise<BenchRow[]> {
  return sideBySide(async ({ ours, contracts }) => {
    const { url, headers } = ours([], BODY);
    const send = async (method: string, path: string, body: unknown) => {
      const answer = await fetch(`${url}/api/v1${path}`, { method, headers, body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    };
    const budget = (user: number, name: string, spender: string) =>
      send("PUT", `/contracts/user-${user}/budgets/${name}`, {
        limit: "meter-calls",
        spender,
        amount: 1e12,
        window: "life",
        mode: "stop",
      });
    const plain = contracts.filter((i) => i % 2 === 0 && i !== WIDE);
    const budgeted = contracts.filter((i) => i % 2 === 1);
    for (const user of [...budgeted, WIDE]) {
      for (const [name, spender] of Object.entries(FITTING)) await budget(user, name, spender);
    }
    for (let from = 0; from < SPENDERS; from += BATCH) {
      const items = Array.from({ length: BATCH }, (_, i) => ({
        userId: `user-${WIDE}`,
        featureId: "meter-call",
        amounts: { "meter-calls": 1 },
        key: `spender-${from + i}`,
        spender: `person-${from + i}`,
      }));
      await send("POST", "/usage", items);
    }
    const spend = (user: number, spender = "") => `user-${user}/meter-call${spender && `?spender=${spender}`}`;
    const pair = (name: string, against: readonly string[], of: readonly string[], target: number): Pair => ({
      name: `${name}, by processor time`,
      against: ours(against, BODY),
      of: ours(of, BODY),
      connections: 64,
      target,
      processorTimeOf: "server",
    });
    const runOf = (user: number) => spend(user, "person-7/agent-1/run-1");
    const distinct = [plain.map((user) => spend(user)), budgeted.map(runOf)] as const;
    return [
      pair("consume within three budgets, distinct contracts / plain consumption", ...distinct, 0.8),
      pair(
        "consume within three budgets, one hot contract / plain consumption",
        [spend(plain[0] ?? 0)],
        [runOf(HOT)],
        0.8,
      ),
      pair("consume within three budgets beside 100,000 balances / beside few", [runOf(HOT)], [runOf(WIDE)], 0.95),
    ];
  }, quick);
}
