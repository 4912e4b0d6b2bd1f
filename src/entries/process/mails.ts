import { type Mails, startMails } from "../../events/mails.ts";
import type { Metric } from "../../http/metrics.ts";
import { composeLetter } from "../../operations/accounts/letters.ts";
import { contextOf, type Resources } from "../../operations/context.ts";
import { createSendLetter } from "../platform/smtp.ts";
import type { Config } from "./config.ts";
import type { Process } from "./lifecycle.ts";

/** Starts sending mails. Undefined without SMTP_URL. */
export function openMails(config: Config, resources: Resources, log: Process["log"]): Mails | undefined {
  const { SMTP_URL: url, MAIL_FROM: from, PUBLIC_URL: publicUrl } = config;
  if (url === undefined || from === undefined || publicUrl === undefined) return undefined;
  return startMails({
    db: resources.db,
    compose: (mail) => composeLetter(contextOf(resources, { kind: "anonymous" }), mail, publicUrl),
    send: createSendLetter({ url, from }),
    onError: (error) => log("warn", "mails cannot be sent for now", error),
  });
}

/** Returns the metrics of mails. Empty where none are sent. */
export function mailMetrics(mails: Mails | undefined): Metric[] {
  if (mails === undefined) return [];
  const { sent, failed, pending } = mails.counts();
  return [
    {
      name: "faregate_mails_total",
      help: "Mails, by what became of them.",
      type: "counter",
      value: [
        [{ outcome: "sent" }, sent],
        [{ outcome: "failed" }, failed],
      ],
    },
    { name: "faregate_mails_pending", help: "Mails that wait for an attempt.", type: "gauge", value: pending },
  ];
}
