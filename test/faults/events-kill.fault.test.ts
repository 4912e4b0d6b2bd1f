import { it } from "vitest";
import { expectNothingLost } from "../events/kill.ts";

it("every client that resumes gets each of 500 events exactly once and in order through 50 kills", async () => {
  await expectNothingLost({ events: 500, kills: 50 });
}, 180_000);
