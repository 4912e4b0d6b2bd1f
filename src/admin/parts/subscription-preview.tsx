import type { Subscription } from "../answers.ts";
import { type Difference, differencesBetween } from "../differences.ts";
import { formatValue } from "../format.ts";
import { choiceOf } from "../pricing.ts";
import { usePricings } from "../services.ts";
import { texts } from "../texts.ts";
import { Skeleton } from "./page.tsx";
import { Badge, Table } from "./table.tsx";

const t = texts.novation;
export const TONES = { more: "good", less: "danger", different: "warn" } as const;

/** Shows gains and losses between two subscriptions, per service. */
export function SubscriptionPreview({ before, after }: { before: Subscription; after: Subscription }) {
  const both = [...Object.entries(before.contractedServices), ...Object.entries(after.contractedServices)];
  const { pricingOf } = usePricings(both);
  const services = [...new Set(both.map(([service]) => service))];
  const isHere = both.every(([service, version]) => pricingOf(service, version) !== undefined);
  if (!isHere) return <Skeleton lines={2} />;
  const of = (subscription: Subscription, service: string) => {
    const pricing = pricingOf(service, subscription.contractedServices[service] ?? "");
    return pricing === undefined ? undefined : { pricing, choice: choiceOf(subscription, service) };
  };
  const changed = services.flatMap((service) =>
    differencesBetween(of(before, service), of(after, service)).map((difference) => ({
      ...difference,
      name: `${service}-${difference.name}`,
    })),
  );
  return <DifferenceTable changes={changed} />;
}

/** Lists differences in a table; the label repeats the colour in words. */
export function DifferenceTable({ changes }: { changes: readonly Difference[] }) {
  if (changes.length === 0) return <p className="hint">{t.nothing}</p>;
  return (
    <Table label={t.gains} head={[texts.contract.entitlement, t.gains, ""]}>
      {changes.map(({ name, kind, before, after, effect }) => {
        const [was, is] = [formatValue(before ?? undefined), formatValue(after ?? undefined)];
        return (
          <tr key={`${kind} ${name}`}>
            <th scope="row">
              <code>{name}</code>
            </th>
            <td>{was === is ? t.conditions[effect] : t.was(was, is)}</td>
            <td>
              <Badge tone={TONES[effect]}>{t.effect[effect]}</Badge>
            </td>
          </tr>
        );
      })}
    </Table>
  );
}
