import { expectTypeOf, test } from "vitest";
import type { z } from "zod";
import type * as read from "../../src/admin/answers.ts";
import type * as wireChanges from "../../src/wire/changes.ts";
import type * as wireContracts from "../../src/wire/contracts.ts";
import type * as wireAuditLog from "../../src/wire/audit-log.ts";
import type * as wireFailure from "../../src/wire/failure.ts";
import type * as wireFeatures from "../../src/wire/features.ts";
import type * as wireGate from "../../src/wire/gate.ts";
import type * as wireOrganizations from "../../src/wire/organizations.ts";
import type * as wireServices from "../../src/wire/services.ts";
import type * as wireSystem from "../../src/wire/system.ts";
import type * as wireUsers from "../../src/wire/users.ts";
import type * as wireWebhooks from "../../src/wire/webhooks.ts";

type documented = typeof wireChanges &
  typeof wireContracts &
  typeof wireAuditLog &
  typeof wireFailure &
  typeof wireFeatures &
  typeof wireGate &
  typeof wireOrganizations &
  typeof wireServices &
  typeof wireSystem &
  typeof wireUsers &
  typeof wireWebhooks;

/** Type of a response body according to the server's own schema. */
type Answer<Name extends keyof documented> = documented[Name] extends z.ZodType ? z.output<documented[Name]> : never;

test("the console's types accept every response that the server documents", () => {
  expectTypeOf<Answer<"signedIn">>().toExtend<read.SignedIn>();
  expectTypeOf<Answer<"organization">>().toExtend<read.Organization>();
  expectTypeOf<Answer<"organizationPage">>().toExtend<read.Page<read.Organization>>();
  expectTypeOf<Answer<"userPage">>().toExtend<read.Page<read.User>>();
  expectTypeOf<Answer<"service">>().toExtend<read.Service>();
  expectTypeOf<Answer<"serviceUploaded">>().toExtend<read.UploadedService>();
  expectTypeOf<Answer<"pricing">>().toExtend<read.WirePricing>();
  expectTypeOf<Answer<"contract">>().toExtend<read.Contract>();
  expectTypeOf<Answer<"featureAnswer">>().toExtend<read.FeatureAnswer>();
  expectTypeOf<Answer<"week">>().toExtend<read.Week>();
  expectTypeOf<Answer<"webhook">>().toExtend<read.Webhook>();
  expectTypeOf<Answer<"delivery">>().toExtend<read.Delivery>();
  expectTypeOf<Answer<"organizationKey">>().toExtend<read.KeyDetails>();
  expectTypeOf<Answer<"denialReport">>().toExtend<read.DenialReport>();
  expectTypeOf<Answer<"overview">>().toExtend<read.Overview>();
  expectTypeOf<Answer<"auditPage">>().toExtend<read.AuditPage>();
  expectTypeOf<Answer<"diff">>().toExtend<read.Diff>();
  expectTypeOf<Answer<"impact">>().toExtend<read.Impact>();
  expectTypeOf<Answer<"massNovation">>().toExtend<read.Impact>();
  expectTypeOf<NonNullable<Answer<"failure">["gate"]>>().toExtend<read.ClosedGate>();
  expectTypeOf<Answer<"gate">>().toExtend<read.Gate>();
  expectTypeOf<Answer<"decisionPage">>().toExtend<read.DecisionPage>();
});
