import type { Contract } from "../answers.ts";
import { usePricings } from "../pricings.ts";
import { texts } from "../texts.ts";
import { configurationText, planMoves } from "../unlock.ts";
import { Section } from "../design/page.tsx";
import { Table } from "../design/table.tsx";
import { ChangeList } from "./unlock.tsx";

const t = texts.unlock;

/** Shows what each plan would bring the contract's user. */
export function PlanMoves({ contract }: { contract: Contract }) {
  const contracted = Object.entries(contract.contractedServices);
  const { pricingOf } = usePricings(contracted);
  return contracted.map(([service, version]) => {
    const pricing = pricingOf(service, version);
    if (pricing === undefined || pricing.plans.size === 0) return null;
    return (
      <Section key={service} title={t.moves(service)}>
        <Table label={t.moves(service)} head={[t.plan, t.price, t.effect, t.gains, t.losses]}>
          {planMoves(contract, service, pricing).map(({ plan, gains, losses, differences }) => (
            <tr key={plan.name}>
              <th scope="row">{configurationText(plan.select)}</th>
              <td>{plan.price.text}</td>
              <td>{t.scenarios[plan.scenario ?? "current"]}</td>
              <td>
                <ChangeList changes={gains} />
              </td>
              <td>
                <ChangeList changes={[...losses, ...differences]} />
              </td>
            </tr>
          ))}
        </Table>
      </Section>
    );
  });
}
