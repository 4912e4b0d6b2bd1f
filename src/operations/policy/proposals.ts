import type { ConfigurationItem, HashedModel } from "../../core/change/analysis.ts";
import { configurationKey } from "../../core/change/configuration.ts";
import type { Configuration } from "../../core/change/configuration.ts";
import { modelText, type ServiceRow, type VersionRow } from "../../db/queries/pricings.ts";
import { type Context, transaction } from "../context.ts";
import { tenantOf } from "../access.ts";
import { clientClosed } from "../state/analysis.ts";
import { Failure } from "../errors.ts";

/** A configuration of a version that needs an assessment before a change. */
export interface Question {
  readonly version: VersionRow;
  readonly configuration: Configuration;
  readonly place: ConfigurationItem["place"];
  readonly overrides: ConfigurationItem["overrides"];
}

/** Parameters shared by all questions of one change. */
export interface QuestionsAbout {
  readonly service: ServiceRow;
  /** The version that contracts move to. */
  readonly after: VersionRow | undefined;
  readonly proposes: boolean;
  readonly certifies: boolean;
}

/** Assessments of one change, by question key. */
export type Answers = NonNullable<Context["answers"]>;

/** Returns equal keys exactly for questions with equal answers. */
export function questionKey(about: QuestionsAbout, { version, configuration, place, overrides }: Question): string {
  const target = typeof place === "string" ? place : configurationKey(place);
  const models = [about.service.nameKey, version.hash, about.after?.hash ?? null];
  return JSON.stringify([...models, about.certifies, configurationKey(configuration), target, overrides]);
}

/** Thrown inside a transaction that lacks assessments, to release its locks before they are computed. */
export class MissingAnswers extends Error {
  readonly about: QuestionsAbout;
  readonly questions: readonly Question[];

  constructor(about: QuestionsAbout, questions: readonly Question[]) {
    super("a change needs assessments that are made outside of its transaction");
    this.about = about;
    this.questions = questions;
  }
}

/** Rollbacks per step because contracts changed, before the caller gets a conflict. */
const MAX_ATTEMPTS = 5;
/** Configurations per thread task; other tasks can run in between. */
const CHUNK = 8;
/** Time limits of one best-fit search, and of all searches of one call. Later searches return partial results. */
const SEARCH_MS = 1_000;
const CALL_MS = 90_000;

/** The sentence of a change that is to be tried again. */
export const CONTRACTS_CHANGING = "CONFLICT: The contracts of the service are changing at the moment. Try again";

/** Cancellation by the waiting client, and what it sees meanwhile. */
export interface Waiting {
  signal?: AbortSignal | undefined;
  /** Called after each chunk with the number of assessed configurations. */
  onAssessed?: ((assessed: number) => void) | undefined;
}

/** Computes assessments outside of transactions, off the event loop. */
export async function answerQuestions(
  ctx: Context,
  { about, questions }: Pick<MissingAnswers, "about" | "questions">,
  answers: Answers,
  { signal, onAssessed }: Waiting = {},
): Promise<void> {
  const { service, proposes, certifies } = about;
  const models = new Map<string, HashedModel>();
  const load = async ({ id, hash, draft }: VersionRow): Promise<HashedModel> => {
    const model = models.get(hash) ?? { hash, text: draft ?? (await modelText(ctx.db, id)) };
    models.set(hash, model);
    return model;
  };
  const until = performance.now() + CALL_MS;
  let assessedBefore = 0;
  await ctx.resources.analysis.call(
    tenantOf(ctx, service.organizationId),
    async (call) => {
      for (const version of new Set(questions.map((each) => each.version))) {
        const ofVersion = questions.filter((each) => each.version === version);
        const { after } = about;
        const [before, target] = [await load(version), after === undefined ? undefined : await load(after)];
        for (let at = 0; at < ofVersion.length; at += CHUNK) {
          if (signal?.aborted === true) throw clientClosed();
          const chunk = ofVersion.slice(at, at + CHUNK);
          const keys = chunk.map((each) =>
            JSON.stringify([service.nameKey, version.hash, after?.hash, each.configuration, each.overrides]),
          );
          const known = keys.map((key) => (proposes ? ctx.resources.pricingCache.proposal(key)?.best : undefined));
          const assessed = await call.run({
            kind: "configurations",
            serviceName: service.nameKey,
            before,
            after: target,
            proposes,
            certifies,
            items: chunk.map(({ configuration, place, overrides }, index) => ({
              configuration,
              place,
              overrides,
              proposal: known[index],
            })),
            limitMs: Math.max(0, Math.min(SEARCH_MS, until - performance.now())),
          });
          for (const [index, answer] of assessed.entries()) {
            const question = chunk[index];
            if (question === undefined) continue;
            if (proposes && known[index] === undefined)
              ctx.resources.pricingCache.keepProposal(keys[index] ?? "", answer.proposal);
            answers.set(questionKey(about, question), answer);
          }
          onAssessed?.((assessedBefore += chunk.length));
        }
      }
    },
    signal,
  );
}

/**
 * Runs a change's transaction, and computes assessments while no locks are held. A transaction that needs a missing
 * assessment is rolled back, and restarted once that is computed.
 * @throws Failure conflict when contracts keep changing in the meantime.
 */
export async function proposeFirst<T>(
  ctx: Context,
  work: (ctx: Context) => Promise<T>,
  waiting: Waiting = {},
): Promise<T> {
  const answers: Answers = new Map();
  const attempts = new Map<string, number>();
  for (;;) {
    try {
      return await transaction({ ...ctx, answers }, work);
    } catch (error) {
      if (!(error instanceof MissingAnswers)) throw error;
      // Counted per pair of versions, because a group novation has several.
      const { service, after } = error.about;
      const step = JSON.stringify([service.id, error.questions[0]?.version.id, after?.id]);
      const attempt = (attempts.get(step) ?? 0) + 1;
      attempts.set(step, attempt);
      if (attempt === MAX_ATTEMPTS) {
        throw new Failure("conflict", CONTRACTS_CHANGING);
      }
      await answerQuestions(ctx, error, answers, waiting);
    }
  }
}
