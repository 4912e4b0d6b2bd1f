import { it } from "vitest";
import { expectNothingLost } from "./kill.ts";

it("every client that resumes gets each event exactly once and in order while server and database connections are killed", async () => {
  await expectNothingLost({ events: 150, kills: 8 });
}, 60_000);
