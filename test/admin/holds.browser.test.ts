import { beforeAll, test } from "vitest";
import { expectAccessible, useConsole } from "./console.ts";

const own = useConsole();

beforeAll(async () => {
  await own.upload(own.sample("tasker"));
  await own.contract("ada", "PRO");
});

test("a contract shows what is held of its limits, and its open holds", async () => {
  const { page } = own;
  await own.call("POST", "/features/ada/tasker-board", { "tasker-maxTasks": 30 }, own.key);
  await own.call("POST", "/features/ada/tasker-board?hold=PT1H&onExpiry=consume", { "tasker-maxTasks": 50 }, own.key);
  await own.open("/contracts/ada", "ada");
  await page.getByText("30 of 200, 50 held").waitFor();
  const holds = page.locator("section", { has: page.getByRole("heading", { level: 2, name: "Open holds" }) }).last();
  await holds.getByText("50 Max tasks").waitFor();
  await holds.getByText("tasker-board. Counts if nobody settles it").waitFor();
  await expectAccessible(page);
});
