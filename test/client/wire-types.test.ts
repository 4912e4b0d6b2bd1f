import { expectTypeOf, test } from "vitest";
import type { z } from "zod";
import type * as blocks from "../../src/client/back/blocks.ts";
import type * as contracts from "../../src/client/back/contract.ts";
import type * as results from "../../src/client/back/feature-result.ts";
import type * as answers from "../../src/client/back/feature-answers.ts";
import type * as holds from "../../src/client/back/holds.ts";
import type * as leases from "../../src/client/back/leases.ts";
import type * as budgets from "../../src/client/back/budgets.ts";
import type * as members from "../../src/client/back/members.ts";
import type * as overrides from "../../src/client/back/overrides.ts";
import type * as replays from "../../src/client/back/replay.ts";
import type * as subscriptions from "../../src/client/back/subscription.ts";
import type * as services from "../../src/client/back/services.ts";
import type * as offers from "../../src/client/offer.ts";
import type * as blocksOnWire from "../../src/wire/blocks.ts";
import type * as contractBodies from "../../src/wire/contract-bodies.ts";
import type * as contractsOnWire from "../../src/wire/contract-answers.ts";
import type * as featuresOnWire from "../../src/wire/features.ts";
import type * as holdsOnWire from "../../src/wire/holds.ts";
import type * as leasesOnWire from "../../src/wire/leases.ts";
import type * as budgetsOnWire from "../../src/wire/budgets.ts";
import type * as membersOnWire from "../../src/wire/members.ts";
import type * as offersOnWire from "../../src/wire/offers.ts";
import type * as overridesOnWire from "../../src/wire/overrides.ts";
import type * as replaysOnWire from "../../src/wire/replay.ts";
import type * as filesOnWire from "../../src/wire/version-files.ts";
import type * as servicesOnWire from "../../src/wire/services.ts";
import type * as unlockOnWire from "../../src/wire/unlock.ts";

/* The client's interfaces stay free of zod. The compiler holds them against the schemas of the wire here. */

/** A type after JSON: readonly, and an optional property is absent rather than undefined. */
type Json<T> = T extends readonly (infer Item)[]
  ? readonly Json<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Json<Exclude<T[Key], undefined>> }
    : T;

test("the client's interfaces accept the answers of the wire", () => {
  expectTypeOf<Json<z.output<typeof contractsOnWire.contract>>>().toExtend<Json<contracts.Contract>>();
  expectTypeOf<Json<z.output<typeof holdsOnWire.hold>>>().toExtend<Json<holds.Hold>>();
  expectTypeOf<Json<z.output<typeof holdsOnWire.settlement>>>().toExtend<Json<holds.SettleAnswer>>();
  expectTypeOf<Json<z.output<typeof leasesOnWire.leaseAnswer>>>().toExtend<Json<leases.LeaseAnswer>>();
  expectTypeOf<Json<z.output<typeof featuresOnWire.featureAnswer>>>().toExtend<Json<results.Reasons>>();
  expectTypeOf<Json<z.output<typeof overridesOnWire.override>>>().toExtend<Json<overrides.Override>>();
  expectTypeOf<Json<z.output<typeof blocksOnWire.block>>>().toExtend<Json<blocks.Block>>();
  expectTypeOf<Json<z.output<typeof blocksOnWire.balances>>>().toExtend<Json<readonly blocks.Balance[]>>();
  expectTypeOf<Json<z.output<typeof membersOnWire.member>>>().toExtend<Json<members.Member>>();
  expectTypeOf<Json<z.output<typeof membersOnWire.memberPage>>>().toExtend<Json<members.MemberPage>>();
  expectTypeOf<Json<z.output<typeof membersOnWire.memberCounts>>>().toExtend<Json<members.MemberCounts>>();
  expectTypeOf<Json<z.output<typeof contractsOnWire.asOfContract>>>().toExtend<Json<answers.AsOfContract>>();
  expectTypeOf<Json<z.output<typeof featuresOnWire.featureResult>>>().toExtend<Json<results.FeatureResult>>();
  expectTypeOf<Json<z.output<typeof servicesOnWire.service>>>().toExtend<Json<services.Service>>();
  expectTypeOf<Json<z.output<typeof filesOnWire.versionFile>>>().toExtend<Json<services.VersionFile>>();
  expectTypeOf<Json<z.output<typeof replaysOnWire.replayReport>>>().toExtend<Json<replays.ReplayReport>>();
  expectTypeOf<Json<z.output<typeof unlockOnWire.unlock>>>().toExtend<Json<offers.Unlock>>();
  expectTypeOf<Json<z.output<typeof offersOnWire.offer>>>().toExtend<Json<offers.Offer>>();
});

test("the wire accepts the bodies of the client", () => {
  expectTypeOf<Json<contracts.NewContract>>().toExtend<Json<z.input<typeof contractBodies.newContract>>>();
  expectTypeOf<Json<Omit<overrides.OverrideChange, "from" | "until">>>().toExtend<
    Omit<Json<z.input<typeof overridesOnWire.overrideChange>>, "from" | "until">
  >();
  expectTypeOf<Json<Omit<blocks.NewBlock, "from" | "expiresAt">>>().toExtend<
    Omit<Json<z.input<typeof blocksOnWire.newBlock>>, "from" | "expiresAt">
  >();
  expectTypeOf<Json<z.output<typeof budgetsOnWire.budget>>>().toExtend<Json<budgets.Budget>>();
  expectTypeOf<Json<z.output<typeof budgetsOnWire.budgetView>>>().toExtend<Json<budgets.BudgetReached>>();
  expectTypeOf<Json<Omit<budgets.NewBudget, "until" | "thresholds">>>().toExtend<
    Omit<Json<z.input<typeof budgetsOnWire.newBudget>>, "until" | "thresholds">
  >();
  expectTypeOf<{ readonly data: readonly Json<members.NewMember>[] }>().toExtend<
    Json<z.input<typeof membersOnWire.memberList>>
  >();
  expectTypeOf<Json<Omit<leases.NewLease, "server">>>().toExtend<Json<z.input<typeof leasesOnWire.leaseRequest>>>();
  expectTypeOf<Json<leases.LeaseReport>>().toExtend<Json<z.input<typeof leasesOnWire.leaseReport>>>();
  expectTypeOf<Json<Omit<replays.ReplayOptions, "pricing">>>().toExtend<
    Json<z.input<typeof replaysOnWire.replayBody>>
  >();
  expectTypeOf<Json<subscriptions.Novation>>().toExtend<Json<z.input<typeof contractBodies.novation>>>();
});
