import type { Connection } from "../../db/postgres/connect.ts";
import { schemaVersion } from "../../db/migrate.ts";
import { checkMailServer } from "../platform/smtp.ts";
import type { Config } from "../process/config.ts";
import { sentenceOf } from "../process/lifecycle.ts";
import type { Finding } from "./doctor-finding.ts";

type Judged = Omit<Finding, "what">;

/** Checks that the mail server admits this one, and that mails neither wait nor fail. */
export async function examineMail(
  client: Connection["client"],
  { SMTP_URL: url, MAIL_FROM: from }: Pick<Config, "SMTP_URL" | "MAIL_FROM">,
): Promise<Judged[]> {
  if (url === undefined || from === undefined) {
    return [{ state: "ok", sentence: "SMTP_URL is not set: links for people are copied, not mailed." }];
  }
  const found: Judged[] = [];
  try {
    await checkMailServer({ url, from });
    found.push({ state: "ok", sentence: `The mail server ${new URL(url).host} admits this one.` });
  } catch (error) {
    const sentence = sentenceOf(error, `The mail server ${new URL(url).host} cannot be used`);
    found.push({ state: "FAIL", sentence });
  }
  if ((await schemaVersion(client)) === 0) return found;
  const [row] = await client<{ late: number; failed: number; error: string | null }[]>`
    select count(*) filter (where status = 'pending' and created_at < now() - interval '10 minutes')::int as late,
      count(*) filter (where status = 'failed' and created_at > now() - interval '1 day')::int as failed,
      (array_agg(error order by last_attempt_at desc) filter (where error is not null))[1] as error
    from mails`;
  const { late = 0, failed = 0, error = null } = row ?? {};
  if (late === 0 && failed === 0) return found;
  const last = error === null ? "" : `, the last with: ${error}`;
  found.push({
    state: "warn",
    sentence: `${late} mails wait for more than ten minutes, and ${failed} failed within a day${last}`,
  });
  return found;
}
