/** What one caller waits for. */
interface Waiting<Ask, Answer> {
  ask: Ask;
  resolve: (answer: Answer) => void;
  reject: (reason: unknown) => void;
}

/**
 * Groups concurrent asks: those that arrive while a round trip is under way share the next one. Under load that is one
 * statement for dozens of callers instead of one each; alone, an ask goes out at once. `run` answers in the order of the
 * asks, with an Error for an ask that fails by itself; when it throws, everybody of that round fails.
 */
export function createBatch<Ask, Answer>(
  run: (asks: readonly Ask[]) => Promise<readonly (Answer | Error)[]>,
  options: { maxAsks: number; lanes: number },
): (ask: Ask) => Promise<Answer> {
  let waiting: Waiting<Ask, Answer>[] = [];
  let running = 0;

  const round = async (group: readonly Waiting<Ask, Answer>[]) => {
    try {
      const answers = await run(group.map((one) => one.ask));
      for (const [i, one] of group.entries()) {
        const answer = answers[i];
        if (answer === undefined) one.reject(new Error("a batch answered fewer asks than it was given"));
        else if (answer instanceof Error) one.reject(answer);
        else one.resolve(answer);
      }
    } catch (error) {
      for (const one of group) one.reject(error);
    }
    running -= 1;
    start();
  };
  const start = () => {
    while (waiting.length > 0 && running < options.lanes) {
      const group = waiting.slice(0, options.maxAsks);
      waiting = waiting.slice(options.maxAsks);
      running += 1;
      void round(group);
    }
  };
  return (ask) =>
    new Promise((resolve, reject) => {
      waiting.push({ ask, resolve, reject });
      // At the end of the tick, so that what arrived together goes together.
      if (waiting.length === 1) queueMicrotask(start);
    });
}
