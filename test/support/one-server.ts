import { expect, it } from "vitest";

/* Tests of several processes over one database that must behave like one server. */

export type Ask = (
  method: string,
  path: string,
  given?: { key?: string; body?: unknown },
) => Promise<{ status: number; body: Record<string, unknown> }>;

/** One of the processes. */
export interface OneOfMany {
  name: string;
  ask: Ask;
}

/** The processes, over contracts of `ada` and `grace` with the plan PRO of the Tasker pricing. */
export interface Many {
  all: readonly OneOfMany[];
  /** Of scope ALL. */
  key: string;
  /** The owner's. */
  userKey: string;
  organizationId: string;
}

/** Signs in as the owner of the seeded organization. */
export async function signInAsOwner(ask: Ask, key: string): Promise<Pick<Many, "userKey" | "organizationId">> {
  const credentials = { username: "admin", password: "password" };
  const userKey = String((await ask("POST", "/users/authenticate", { body: credentials })).body["apiKey"]);
  const organizations = await ask("GET", "/organizations", { key: userKey });
  const found = (organizations.body["data"] as { id: string; apiKeys: { key: string }[] }[]).find(({ apiKeys }) =>
    apiKeys.some((each) => each.key === key),
  );
  return { userKey, organizationId: found?.id ?? "" };
}

/** Registers the tests. PRO allows 100,000 tasks, FREE five. */
export function testAsOneServer(many: () => Many): void {
  /** Sends `count` requests round-robin over all of them. */
  const each = <T>(count: number, send: (process: OneOfMany) => Promise<T>): Promise<T[]> => {
    const { all } = many();
    return Promise.all(Array.from({ length: count / all.length }, () => all.map(send)).flat());
  };

  /** Waits until all agree; fails if one that was asked after a second does not. */
  async function allWithinOneSecond(agrees: (process: OneOfMany) => Promise<boolean>, what: string): Promise<void> {
    const deadline = performance.now() + 1000;
    await Promise.all(
      many().all.map(async (process) => {
        for (;;) {
          const askedAt = performance.now();
          if (await agrees(process)) return;
          if (askedAt > deadline) throw new Error(`${process.name} does not know of ${what} after a second`);
        }
      }),
    );
  }

  const evaluate = ({ ask }: OneOfMany, user: string, key = many().key) =>
    ask("POST", `/features/${user}/tasker-board`, { key });

  it("consumption is exact across all processes", async () => {
    const { all, key } = many();
    const answers = await each(400, async ({ ask }) => {
      const consume = () => ask("POST", "/features/ada/tasker-board", { key, body: { "tasker-maxTasks": 1 } });
      let answer = await consume();
      // On a busy machine the contract stays locked for longer than a call waits. It has counted nothing then.
      for (let again = 0; answer.status === 503 && again < 5; again += 1) answer = await consume();
      return answer;
    });
    const balances = answers.map(({ body }) => (body["used"] as Record<string, number>)["tasker-maxTasks"]);
    expect(new Set(balances).size).toBe(400);
    for (const process of all) {
      expect((await evaluate(process, "ada")).body["used"]).toEqual({ "tasker-maxTasks": 400 });
    }
  });

  it("all processes apply one process's contract change within a second, however often they had read it", async () => {
    const { all, key } = many();
    for (const process of all) for (let i = 0; i < 3; i += 1) await evaluate(process, "grace");
    const limitAt = async (process: OneOfMany) =>
      ((await evaluate(process, "grace")).body["limit"] as Record<string, number>)["tasker-maxTasks"];
    for (const [turn, by] of all.entries()) {
      const plan = turn % 2 === 0 ? "FREE" : "PRO";
      const body = {
        contractedServices: { tasker: "1.0.0" },
        subscriptionPlans: { tasker: plan },
        subscriptionAddOns: {},
      };
      expect((await by.ask("PUT", "/contracts/grace", { key, body })).status).toBe(200);
      const limit = plan === "FREE" ? 5 : 100_000;
      // The process that made the change applies it at once.
      expect(await limitAt(by)).toBe(limit);
      await allWithinOneSecond(async (process) => (await limitAt(process)) === limit, `the plan ${plan}`);
    }
  });

  it("all processes refuse a revoked key within a second", async () => {
    const { all, userKey, organizationId } = many();
    const path = `/organizations/${organizationId}/api-keys`;
    for (const by of all.slice(0, 2)) {
      const made = await by.ask("POST", path, { key: userKey, body: { scope: "EVALUATION" } });
      const fresh = (made.body["apiKeys"] as { id: string; key: string }[]).at(-1);
      const apiKey = fresh?.key ?? "";
      for (const process of all) {
        for (let i = 0; i < 3; i += 1) expect((await evaluate(process, "ada", apiKey)).status).toBe(200);
      }
      expect((await by.ask("DELETE", `${path}/${fresh?.id}`, { key: userKey })).status).toBeLessThan(300);
      expect((await evaluate(by, "ada", apiKey)).status).toBe(401);
      await allWithinOneSecond(
        async (process) => (await evaluate(process, "ada", apiKey)).status === 401,
        "the revocation",
      );
      // The key stays refused.
      for (const process of all) expect((await evaluate(process, "ada", apiKey)).status).toBe(401);
    }
  });

  it("a cache entry written through one process is readable through the others", async () => {
    const { all, userKey } = many();
    const body = { key: "greeting", value: { text: "hello" }, expirationInSeconds: 60 };
    expect((await all[0]?.ask("POST", "/cache/set", { key: userKey, body }))?.status).toBe(200);
    for (const { ask } of all) {
      expect((await ask("GET", "/cache/get?key=greeting", { key: userKey })).body).toEqual({ text: "hello" });
    }
  });

  it("call counts are summed over all processes", async () => {
    const { all, userKey } = many();
    const sum = async () => {
      const week = (await all[0]?.ask("GET", "/analytics/evaluations", { key: userKey }))?.body["data"] as number[];
      return week.reduce((all, day) => all + day, 0);
    };
    // Each process flushes its counts within a second; on a busy machine it may take longer.
    let before = await sum();
    for (let last: number | undefined; before !== last;) {
      last = before;
      await new Promise((resolve) => setTimeout(resolve, 3000));
      before = await sum();
    }
    await each(40, (process) => evaluate(process, "ada"));
    await expect.poll(sum).toBe(before + 40);
  });
}
