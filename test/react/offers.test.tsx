import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { act, type ReactNode } from "react";
import { hydrateRoot } from "react-dom/client";
import { renderToString } from "react-dom/server";
import { expect, test, vi } from "vitest";
import { createSide } from "../../src/core/change/entitlements.ts";
import { offerFor } from "../../src/core/offers/offer.ts";
import { compilePricing } from "../../src/core/pricing/compile.ts";
import { parsePricing } from "../../src/core/pricing/parse/pricing.ts";
import {
  Offer,
  OfferTable,
  ServiceProvider,
  TokenService,
  ServiceClient,
  type Unlock,
  UnlockPrompt,
  useOffer,
} from "../../src/react/react.ts";
import type { Offer as OfferData } from "../../src/client/offer.ts";
import { mount, settle, token } from "./harness.tsx";

/* Source: contract offers §7. */

const parsed = parsePricing(
  readFileSync(resolve(import.meta.dirname, "../../src/samples/tasker.yml"), "utf8"),
  new Date("2026-01-01"),
);
if (!parsed.ok) throw new Error("the sample is not valid");
const side = createSide(compilePricing(parsed.pricing), "tasker");
const held = (plan: string, addOns: Record<string, number> = {}) => ({
  held: { side, configuration: { plan, addOns }, isShown: true, expired: false },
});
const make = (user?: Parameters<typeof offerFor>[1]["user"]) =>
  offerFor(side, { service: "Tasker", versions: ["1.0.0"], user }) as OfferData;

const UNLOCK: Unlock = {
  featureId: "tasker-export",
  service: "tasker",
  current: { pricingVersion: "1.0.0", plan: "FREE", addOns: {} },
  target: { pricingVersion: "1.0.0", plan: "PRO", addOns: { extraTasks: 2 } },
  reason: null,
  contact: false,
  // oxlint-disable-next-line unicorn/no-thenable -- a number, and the contract's name for it
  price: { now: 0, then: 1200.5, currency: "EUR", unit: "user/month" },
  gains: [
    { kind: "feature", id: "tasker-export", before: false, after: true },
    { kind: "limit", id: "tasker-maxTasks", before: 20, after: 400 },
  ],
  losses: [{ kind: "feature", id: "tasker-sla", before: "99.9%", after: "99%" }],
  differences: [],
  alternatives: [],
  complete: true,
};

const texts = (selector: string) =>
  [...document.querySelectorAll(selector)].map((element) => element.textContent?.trim());

/** A provider without a connection, whose token says that the feature is off or on. */
function offline(isOn: boolean, children: ReactNode, tokens = new TokenService()) {
  tokens.update(token({ "tasker-export": isOn }, { sub: "ada" }));
  return <ServiceProvider client={new ServiceClient({}, tokens)}>{children}</ServiceProvider>;
}

test("an offer is a table with a column per plan and a row per feature and limit", async () => {
  await mount(<OfferTable offer={make()} />);
  expect(texts("table[data-faregate=offer] caption")).toEqual(["Plans of Tasker"]);
  expect([...document.querySelectorAll("th[scope=col]")].map((each) => each.getAttribute("data-plan"))).toEqual([
    "FREE",
    "PRO",
    "BUSINESS",
  ]);
  expect(texts("th[scope=col] span")).toEqual(["Free", "6 EUR / user/month", "12 EUR / user/month"]);
  expect(texts("th[scope=rowgroup]")).toEqual(["Features", "Limits"]);
  expect(texts("table[data-faregate=offer] th[scope=row]")).toContain("New tasks in a month");
  expect(texts("td[data-included=false]")).toContain("Not included");
  expect(texts("td[data-included=true]")).toContain("2,000 task per month");
  expect(document.querySelector("tfoot, button")).toBeNull();
  expect(texts("[data-add-on=extraTasks] td")).toEqual(["2 EUR / month", "New tasks in a month: +100 task"]);
});

test("its buttons say what choosing a plan is, and pass the configuration with its item", async () => {
  const chosen = vi.fn();
  await mount(<OfferTable offer={make(held("PRO", { extraTasks: 1 }))} onSelect={chosen} />);
  expect(texts("button")).toEqual(["Downgrade to FREE", "Current plan", "Upgrade to BUSINESS", "Add more extraTasks"]);
  const [free, current, business] = document.querySelectorAll("button");
  expect([current?.disabled, current?.getAttribute("aria-current"), free?.type]).toEqual([true, "true", "button"]);
  await act(async () => business?.click());
  const select = { pricingVersion: "1.0.0", plan: "BUSINESS", addOns: { extraTasks: 1 } };
  expect(chosen).toHaveBeenCalledWith(select, expect.objectContaining({ name: "BUSINESS", scenario: "upgrade" }));
});

test("an ended contract may choose its plan again; links replace buttons; labels replace texts", async () => {
  const offer = { ...make(held("PRO")), current: { pricingVersion: "1.0.0", plan: "PRO", addOns: {}, expired: true } };
  const labels = { choose: (plan: string) => `${plan} wählen`, plans: () => "Tarife" };
  await mount(<OfferTable offer={offer} labels={labels} hrefOf={({ plan }) => `/buy/${plan}`} />);
  expect(texts("caption")[0]).toBe("Tarife");
  const link = [...document.querySelectorAll("a")].find((each) => each.textContent === "PRO wählen");
  expect(link?.getAttribute("href")).toBe("/buy/PRO");
});

test("the server renders what the browser hydrates, without a warning", async () => {
  const node = <Offer service="tasker" initial={make()} onSelect={() => {}} />;
  const place = document.body.appendChild(document.createElement("div"));
  place.innerHTML = renderToString(node);
  const before = place.innerHTML;
  const complaints: unknown[] = [];
  const quiet = vi.spyOn(console, "error").mockImplementation((...args) => void complaints.push(args));
  const root = await act(async () =>
    hydrateRoot(place, node, { onRecoverableError: (error) => void complaints.push(error) }),
  );
  await settle();
  expect(place.innerHTML).toBe(before);
  expect(complaints).toEqual([]);
  quiet.mockRestore();
  await act(async () => root.unmount());
});

test("useOffer asks its source once, whatever function it is, and again on reload", async () => {
  const source = vi.fn(async () => make());
  let reload = () => {};
  function Page() {
    const state = useOffer("tasker", { source: () => source() });
    reload = state.reload;
    return <p>{`${state.status} ${state.offer?.plans.length}`}</p>;
  }
  const page = await mount(<Page />);
  await settle();
  expect(page.text()).toBe("ready 3");
  await page.render(<Page />);
  expect(source).toHaveBeenCalledTimes(1);
  source.mockRejectedValueOnce(new Error("down"));
  await act(async () => reload());
  expect([page.text(), source.mock.calls.length]).toEqual(["ready 3", 2]);
});

test("of several answers the last asked counts", async () => {
  const answers: ((offer: OfferData) => void)[] = [];
  const source = () => new Promise<OfferData>((resolve) => answers.push(resolve));
  const page = await mount(
    <Offer service="one" source={source}>
      {(offer) => offer.service}
    </Offer>,
  );
  await page.render(
    <Offer service="two" source={source}>
      {(offer) => offer.service}
    </Offer>,
  );
  await settle();
  await act(async () => {
    answers[1]?.({ ...make(), service: "the second" });
    answers[0]?.({ ...make(), service: "the first" });
  });
  await settle();
  expect(page.text()).toBe("the second");
});

test("an offer loads, fails with a sentence, and needs a source where connecting is not allowed", async () => {
  let fail: (error: Error) => void = () => {};
  const page = await mount(<Offer service="tasker" source={() => new Promise((_, reject) => (fail = reject))} />);
  await settle();
  expect(page.html()).toBe('<p role="status">Loading prices…</p>');
  await act(async () => fail(new Error("down")));
  expect(page.html()).toBe('<p role="alert">Prices cannot be shown right now.</p>');
  function Message() {
    return <p>{useOffer("tasker").error?.message}</p>;
  }
  const forbidden = await mount(
    <ServiceProvider config={{ allowConnectionWithService: false }}>
      <Message />
    </ServiceProvider>,
  );
  await settle();
  expect(forbidden.text()).toBe("useOffer needs a source: connecting is not allowed");
});

test("an unlock is asked for only while the feature is off, and shows what it brings and costs", async () => {
  const source = vi.fn(async () => UNLOCK);
  const chosen = vi.fn();
  const tokens = new TokenService();
  const prompt = <UnlockPrompt feature="tasker-export" source={source} onSelect={chosen} />;
  const page = await mount(offline(true, prompt, tokens));
  await settle();
  expect([page.html(), source.mock.calls.length]).toEqual(["", 0]);
  await act(async () => tokens.update(token({ "tasker-export": false }, { sub: "ada" })));
  await settle();
  expect(texts("section[aria-label=Unlock] p")).toEqual([
    "Available with PRO + 2 × extraTasks for 1,200.50 EUR / user/month.",
  ]);
  expect(texts("ul[data-kind=gains] li")).toEqual(["export", "maxTasks: 20 → 400"]);
  expect(texts("ul[data-kind=losses] li")).toEqual(["sla: 99.9% → 99%"]);
  await act(async () => document.querySelector("button")?.click());
  expect(chosen).toHaveBeenCalledWith(UNLOCK.target, UNLOCK);
  expect(source).toHaveBeenCalledTimes(1);
});

test("a feature that nothing unlocks says so", async () => {
  const none: Unlock = { ...UNLOCK, target: null, price: null, reason: "NOT_OFFERED", gains: [], losses: [] };
  const page = await mount(offline(false, <UnlockPrompt feature="tasker-export" source={async () => none} />));
  await settle();
  expect(page.html()).toBe("<p>Not part of any plan on offer.</p>");
});
