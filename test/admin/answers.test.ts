import { expectTypeOf, test } from "vitest";
import type { z } from "zod";
import type * as read from "../../src/admin/answers.ts";
import type * as documentedAnswers from "../../src/wire/answers.ts";
import type * as documentedContracts from "../../src/wire/contracts.ts";
import type * as documentedFeatures from "../../src/wire/features.ts";
import type * as documentedUsers from "../../src/wire/users.ts";

type documented = typeof documentedAnswers &
  typeof documentedContracts &
  typeof documentedFeatures &
  typeof documentedUsers;

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
