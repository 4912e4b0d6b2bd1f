import { useState } from "react";
import type { Configuration, Impact, ImpactGroup } from "../answers.ts";
import { formatNumber } from "../format.ts";
import { groupKey, type GroupTarget as Target, type Changing } from "../impact.ts";
import { usePricing } from "../services.ts";
import { texts } from "../texts.ts";
import { GroupTarget, nameOf, WhoLink } from "./group-target.tsx";
import { Loaded } from "../design/page.tsx";
import { Table } from "../design/table.tsx";

const t = texts.change;
const SHOWN_AT_ONCE = 20;

interface Choosing extends Changing {
  impact: Impact;
  chosen: Readonly<Record<string, Target>>;
  onChoose: (group: ImpactGroup, target: Configuration) => void;
}

/** Shows the groups in batches, largest first. Each shows its target, or its fate if there is none. */
export function ChangeGroups(props: Choosing) {
  const { service, impact } = props;
  const [shown, setShown] = useState(SHOWN_AT_ONCE);
  const successor = usePricing(service, impact.targetVersion ?? undefined);
  const groups = impact.groups.slice(0, shown);
  const hidden = impact.groups.length - groups.length;
  if (impact.groups.length === 0) return null;
  return (
    <>
      {impact.targetVersion === null ? (
        <GroupTable {...props} groups={groups} />
      ) : (
        <Loaded query={successor}>
          {(pricing) =>
            groups.map((group) => (
              <GroupTarget
                key={groupKey(group)}
                service={service}
                group={group}
                successor={pricing}
                value={props.chosen[groupKey(group)]?.target ?? group.proposal?.target}
                onChange={(target) => props.onChoose(group, target)}
                isVersionShown={props.change.action === "novation"}
              />
            ))
          }
        </Loaded>
      )}
      {hidden === 0 ? null : (
        <button type="button" className="b" onClick={() => setShown(shown + SHOWN_AT_ONCE)}>
          {t.more(formatNumber(Math.min(hidden, SHOWN_AT_ONCE)))}
        </button>
      )}
    </>
  );
}

function GroupTable({ service, change, groups }: Choosing & { groups: readonly ImpactGroup[] }) {
  const isActivation = change.action === "activate";
  return (
    <Table
      label={t.happens}
      head={[t.configuration, texts.contracts.version, t.contracts, isActivation ? t.fits : t.loses, ""]}
    >
      {groups.map((group) => (
        <tr key={groupKey(group)}>
          <th scope="row">{nameOf(group.configuration)}</th>
          <td>{group.pricingVersion}</td>
          <td className="right num">{formatNumber(group.counts.contracts)}</td>
          <td>
            {isActivation
              ? group.proposal === null
                ? "–"
                : nameOf(group.proposal.target)
              : group.features
                  .filter(({ loses }) => loses)
                  .map(({ feature }) => feature)
                  .join(", ") || "–"}
          </td>
          <td>
            <WhoLink service={service} group={group} />
          </td>
        </tr>
      ))}
    </Table>
  );
}
