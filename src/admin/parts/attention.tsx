import { CreditCard, FilePen, Gauge, Hourglass, OctagonX, Webhook as WebhookIcon, type LucideIcon } from "lucide-react";
import { Link } from "react-router";
import type { Overview, Trends, Webhook } from "../answers.ts";
import { Section } from "../design/page.tsx";
import { draftsOf } from "../drafts.ts";
import { formatNumber } from "../format.ts";
import { useAsk } from "../queries.ts";
import { useServices } from "../services.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";

const t = texts.overview;
const WEEK = 7;
/** Fewer denials are no trend. */
const FEW = 20;
const RISE = 1.5;

/** Something to look at, with the page about it. */
interface Item {
  key: string;
  icon: LucideIcon;
  tone: "bad" | "warn";
  title: string;
  lead: string;
  to: string;
}

/** Lists what somebody has to look at, most urgent first. Absent when there is nothing. */
export function Attention({ overview, trends }: { overview: Overview | undefined; trends: Trends | undefined }) {
  const { base, organization, may } = useHere();
  const webhooks = useAsk<Webhook[]>(may("GET", "/webhooks") ? `${base}/webhooks` : undefined);
  const services = useServices();
  const drafts = (services.data ?? []).flatMap(({ name }) => draftsOf(organization.id, name));
  const items = [
    ...brokenWebhooks(webhooks.data ?? []),
    ...(overview === undefined ? [] : troubles(overview, may("GET", "/billing"))),
    ...risenDenials(trends),
    ...(overview === undefined ? [] : endingContracts(overview)),
    ...openDrafts(drafts.length),
  ];
  if (items.length === 0) return null;
  return (
    <Section title={t.attention}>
      <div className="box">
        <ul className="list attention">
          {items.map(({ key, icon: Icon, tone, title, lead, to }) => (
            <li key={key}>
              <span className={`sign lg ${tone}`}>
                <Icon />
              </span>
              <span className="grow">
                <b className="strong block">{title}</b>
                <span className="small soft">{lead}</span>
              </span>
              <Link className="b small" to={to} aria-label={`${t.review}: ${title}`}>
                {t.review}
              </Link>
            </li>
          ))}
        </ul>
      </div>
    </Section>
  );
}

function brokenWebhooks(webhooks: readonly Webhook[]): Item[] {
  return webhooks
    .filter(({ state, failures }) => state === "suspended" || (state === "enabled" && failures > 0))
    .map(({ id, url, state, suspendedReason }) => ({
      key: id,
      icon: WebhookIcon,
      tone: "bad",
      title: (state === "suspended" ? t.webhookSuspended : t.webhookFailing)(new URL(url).host),
      lead: suspendedReason ?? "",
      to: `webhooks?webhook=${id}`,
    }));
}

/** Messages of payment providers that were not applied, and limits that were reached. */
function troubles({ billing, limitsReached }: Overview, seesBilling: boolean): Item[] {
  const items: Item[] = [];
  if (billing.unapplied > 0 && seesBilling) {
    const title = t.unapplied(formatNumber(billing.unapplied));
    items.push({ key: "billing", icon: CreditCard, tone: "bad", title, lead: t.unappliedLead, to: "billing" });
  }
  if (limitsReached.total > 0) {
    const title = t.limitsReached(formatNumber(limitsReached.total));
    const lead = t.lastHours(formatNumber(limitsReached.hours));
    items.push({ key: "limits", icon: Gauge, tone: "warn", title, lead, to: "events?code=USAGE_LIMIT_REACHED" });
  }
  return items;
}

/** Compares the denials of the last seven days with the seven before. Lists them if they have risen by half. */
function risenDenials(trends: Trends | undefined): Item[] {
  const perDay = trends?.denials ?? [];
  const sum = (days: readonly number[]) => days.reduce((total, each) => total + each, 0);
  const [now, before] = [sum(perDay.slice(-WEEK)), sum(perDay.slice(-2 * WEEK, -WEEK))];
  if (now < FEW || now < before * RISE) return [];
  const title = t.denialsRose(formatNumber(now), formatNumber(before));
  const to = `denials?hours=${WEEK * 24}`;
  return [{ key: "denials", icon: OctagonX, tone: "warn", title, lead: t.denialsRoseLead, to }];
}

function endingContracts({ contracts }: Overview): Item[] {
  if (contracts.ending === 0) return [];
  const title = t.ending(formatNumber(contracts.ending));
  return [{ key: "ending", icon: Hourglass, tone: "warn", title, lead: t.endingLead, to: "contracts?state=ending" }];
}

function openDrafts(count: number): Item[] {
  if (count === 0) return [];
  const title = t.drafts(formatNumber(count));
  return [{ key: "drafts", icon: FilePen, tone: "warn", title, lead: texts.services.draft, to: "services" }];
}
