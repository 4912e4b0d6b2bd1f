import { useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import type { Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { stateOf } from "../contract-list.ts";
import { formatDay, formatValue } from "../format.ts";
import { choiceOf, entitlements } from "../pricing.ts";
import { AsOfChoice, useMoment } from "../parts/as-of.tsx";
import { Billing } from "../parts/billing.tsx";
import { ChangePlan } from "../parts/change-plan.tsx";
import { Contact } from "../parts/contact.tsx";
import { ContractHistory } from "../parts/contract-history.tsx";
import { Confirm } from "../parts/dialog.tsx";
import { NoPricing } from "../parts/no-pricing.tsx";
import { Loaded, Page, Section } from "../parts/page.tsx";
import { PlanMoves } from "../parts/plan-moves.tsx";
import { Badge, Table } from "../parts/table.tsx";
import { UsageSection } from "../parts/usage-section.tsx";
import { useAsk, useChange } from "../queries.ts";
import { usePricings } from "../services.ts";
import { useHere } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.contract;

export function ContractPage() {
  const here = useHere();
  const { userId = "" } = useParams();
  const at = useMoment();
  const contract = useAsk<Contract>(here.base + path`/contracts/${userId}`, { at });
  const question = new URLSearchParams({ user: userId, ...(at === undefined ? {} : { at }) });
  return (
    <Page
      title={contract.data?.userContact.username ?? userId}
      {...(contract.data?.userContact.username === userId ? {} : { lead: userId })}
      actions={
        <>
          <Link className="button" to={`../playground?${question.toString()}`}>
            {t.why}
          </Link>
          {at === undefined && here.may("DELETE", path`/contracts/${userId}`) ? (
            <DeleteContract userId={userId} />
          ) : null}
        </>
      }
    >
      <AsOfChoice asOf={contract.data?.asOf} />
      <Loaded query={contract} lines={12}>
        {(data) => (
          <>
            <div className="columns">
              <Facts contract={data} />
              <UsageSection contract={data} />
            </div>
            <Entitlements contract={data} />
            {data.asOf === undefined ? <PlanMoves contract={data} /> : null}
            {data.asOf === undefined && here.may("PUT", path`/contracts/${userId}`) ? (
              <>
                <ChangePlan
                  key={JSON.stringify(data.contractedServices) + data.billingPeriod.startDate}
                  contract={data}
                />
                <Billing key={data.billingPeriod.endDate} contract={data} />
                <Contact contract={data} />
              </>
            ) : null}
            <ContractHistory userId={userId} at={at} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Facts({ contract }: { contract: Contract }) {
  const { userContact, billingPeriod, groupId } = contract;
  const name = [userContact.firstName, userContact.lastName].filter(Boolean).join(" ");
  return (
    <Section title={t.facts}>
      <dl className="facts">
        <dt>{t.userId}</dt>
        <dd>{userContact.userId}</dd>
        {name === "" ? null : (
          <>
            <dt>{texts.services.name}</dt>
            <dd>{name}</dd>
          </>
        )}
        <dt>{t.email}</dt>
        <dd>{userContact.email ?? "–"}</dd>
        <dt>{t.groupId}</dt>
        <dd>{groupId ?? "–"}</dd>
        <dt>{t.period}</dt>
        <dd>
          {formatDay(billingPeriod.startDate)} – {formatDay(billingPeriod.endDate)}{" "}
          <Badge tone="plain">{texts.contracts.state[stateOf(contract, Date.now())]}</Badge>
        </dd>
      </dl>
    </Section>
  );
}

/** Shows a contract's features and limits, each with the plan or add-on that grants it. */
function Entitlements({ contract }: { contract: Contract }) {
  const contracted = Object.entries(contract.contractedServices);
  const { pricingOf, failureOf } = usePricings(contracted);
  return contracted.map(([service, version]) => {
    const pricing = pricingOf(service, version);
    const choice = choiceOf(contract, service);
    const addOns = Object.entries(choice.addOns).map(([name, quantity]) => `${quantity} × ${name}`);
    return (
      <Section
        key={service}
        title={t.entitlements(service, version)}
        lead={[choice.plan ?? texts.novation.noPlan, ...addOns].join(" + ")}
      >
        {pricing === undefined ? (
          <NoPricing failure={failureOf(service, version)} service={service} version={version} />
        ) : (
          <Table label={t.entitlements(service, version)} head={[t.entitlement, t.value, t.source]}>
            {entitlements(pricing, choice).map(({ name, kind, value, from }) => (
              <tr key={`${kind} ${name}`}>
                <th scope="row">{name}</th>
                <td>{formatValue(value)}</td>
                <td>
                  {t.sources[from.source]} {from.names.join(", ")}
                </td>
              </tr>
            ))}
          </Table>
        )}
      </Section>
    );
  });
}

function DeleteContract({ userId }: { userId: string }) {
  const { base } = useHere();
  const go = useNavigate();
  const [isAsking, setIsAsking] = useState(false);
  const remove = useChange({
    change: (_: undefined, key) => call("DELETE", base + path`/contracts/${userId}`, { key }),
    touches: () => [`${base}/contracts`],
    gone: base + path`/contracts/${userId}`,
    done: () => t.deleted(userId),
    after: () => void go("../contracts"),
  });
  return (
    <>
      <button type="button" className="button danger" onClick={() => setIsAsking(true)}>
        {t.delete}
      </button>
      {isAsking ? (
        <Confirm title={t.delete} action={t.delete} name={userId} change={remove} onClose={() => setIsAsking(false)}>
          <p>{t.deleteLead}</p>
        </Confirm>
      ) : null}
    </>
  );
}
