import { CalendarPlus, History, RefreshCw, SearchCheck, Trash2 } from "lucide-react";
import { useState } from "react";
import { Link, useNavigate, useParams, useSearchParams } from "react-router";
import { useActing } from "../acting.ts";
import type { Contract, Subscription } from "../answers.ts";
import { call, path } from "../api.ts";
import { useWithBlocks } from "../blocks.ts";
import { Confirm } from "../design/dialog.tsx";
import { Face } from "../design/mark.tsx";
import { MenuItem, MenuLine, MoreMenu } from "../design/menu.tsx";
import { Loaded, Page } from "../design/page.tsx";
import { Tabs } from "../design/tabs.tsx";
import { explainAll, usageById } from "../explain.ts";
import { formatNumber } from "../format.ts";
import { AccessList } from "../parts/access-list.tsx";
import { AsOfChoice, useMoment } from "../parts/as-of.tsx";
import { Billing, useBilling } from "../parts/billing.tsx";
import { ChangePlan } from "../parts/change-plan.tsx";
import { Contact, nameOf } from "../parts/contact.tsx";
import { ContractBudgets } from "../parts/contract-budgets.tsx";
import { ContractCredits } from "../parts/contract-credits.tsx";
import { ContractTeam } from "../parts/contract-team.tsx";
import { ContractUsage } from "../parts/contract-usage.tsx";
import { ContractHistory } from "../parts/contract-history.tsx";
import { CustomTerms } from "../parts/custom-terms.tsx";
import { Followed } from "../parts/followed.tsx";
import { OpenHolds } from "../parts/open-holds.tsx";
import { Samples } from "../parts/samples.tsx";
import { PlanMoves } from "../parts/plan-moves.tsx";
import { TrialTerms, Upcoming } from "../parts/upcoming.tsx";
import { UsageSection } from "../parts/usage-section.tsx";
import { useAsk, useChange } from "../queries.ts";
import { usePricings } from "../pricings.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { ContractFacts, ContractMeta } from "../parts/contract-facts.tsx";

const t = texts.contract;
/** Interval of refreshing the page while it is visible. Events refresh it earlier. */
const REFRESH_MS = 10_000;

export function ContractPage() {
  const here = useHere();
  const { userId = "" } = useParams();
  const at = useMoment();
  const contract = useAsk<Contract>(
    here.base + path`/contracts/${userId}`,
    { at },
    at === undefined ? { refetchInterval: REFRESH_MS } : {},
  );
  const data = useWithBlocks(here.base, contract.data, { refetchInterval: REFRESH_MS });
  const [search] = useSearchParams();
  const [chosen, setPreset] = useState<Subscription | "none">();
  // The command palette opens the sheet by the address.
  const preset = chosen ?? (search.get("change") === "plan" ? data : undefined);
  const [asks, setAsks] = useState<"moment" | "delete">();
  const mayChange = at === undefined && here.may("PUT", path`/contracts/${userId}`);
  const question = new URLSearchParams({ user: userId, ...(at === undefined ? {} : { at }) });
  const name = data === undefined ? userId : nameOf(data);
  return (
    <Page
      title={name}
      crumbs={[[texts.contracts.title, "../contracts"]]}
      face={<Face name={name} isBig />}
      meta={data === undefined ? null : <ContractMeta contract={data} />}
      actions={
        <>
          <Link className="b" to={`../playground?${question.toString()}`}>
            <SearchCheck />
            {t.why}
          </Link>
          {mayChange && data !== undefined ? (
            <button type="button" className="b primary" onClick={() => setPreset(data)}>
              {t.change}
            </button>
          ) : null}
          {data === undefined ? null : (
            <MoreMenu label={texts.common.more}>
              <MenuItem icon={History} onSelect={() => setAsks("moment")}>
                {texts.asOf.open}
              </MenuItem>
              {mayChange ? <WriteItems contract={data} /> : null}
              {at === undefined && here.may("DELETE", path`/contracts/${userId}`) ? (
                <>
                  <MenuLine />
                  <MenuItem icon={Trash2} isBad onSelect={() => setAsks("delete")}>
                    {t.delete}
                  </MenuItem>
                </>
              ) : null}
            </MoreMenu>
          )}
        </>
      }
    >
      {asks === "moment" || at !== undefined ? <AsOfChoice asOf={data?.asOf} /> : null}
      <Loaded query={{ ...contract, data }} lines={12}>
        {(data) => (
          <>
            <ContractFacts contract={data} />
            <Followed contract={data} />
            <div className="split">
              <Tabs
                label={texts.contracts.title}
                tabs={[
                  {
                    id: "access",
                    title: texts.access.title,
                    content: (
                      <AccessList contract={data} name={name} onChangePlan={mayChange ? setPreset : undefined} />
                    ),
                  },
                  ...(data.asOf === undefined
                    ? [{ id: "plans", title: t.plans, content: <PlanMoves contract={data} /> }]
                    : []),
                  ...(data.asOf === undefined && here.may("GET", path`/contracts/${userId}/usage`)
                    ? [{ id: "usage", title: texts.usage.title, content: <ContractUsage userId={userId} /> }]
                    : []),
                  ...(data.asOf === undefined
                    ? [
                        { id: "team", title: texts.team.title, content: <ContractTeam contract={data} /> },
                        { id: "budgets", title: texts.budgets.title, content: <ContractBudgets contract={data} /> },
                      ]
                    : []),
                  { id: "history", title: t.history, content: <ContractHistory userId={userId} at={at} /> },
                  ...(mayChange
                    ? [
                        {
                          id: "billing",
                          title: t.billingAndContact,
                          content: (
                            <>
                              <Billing key={data.billingPeriod.endDate} contract={data} />
                              <Contact contract={data} />
                            </>
                          ),
                        },
                      ]
                    : []),
                  { id: "api", title: t.api, content: <ApiSamples contract={data} /> },
                ]}
              />
              <aside className="aside" aria-label={t.usage}>
                <UsageSection contract={data} updatedAt={contract.dataUpdatedAt} />
                <ContractCredits contract={data} />
                <OpenHolds contract={data} />
                <TrialTerms contract={data} />
                <Upcoming contract={data} />
                <CustomTerms contract={data} />
              </aside>
            </div>
            {preset === undefined || preset === "none" || !mayChange ? null : (
              <ChangePlan contract={data} preset={preset} onClose={() => setPreset("none")} />
            )}
            {asks === "delete" ? <DeleteContract contract={data} onClose={() => setAsks(undefined)} /> : null}
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** Calls about this user, with a feature of the first contracted service. */
function ApiSamples({ contract }: { contract: Contract }) {
  const contracted = Object.entries(contract.contractedServices);
  const { pricingOf } = usePricings(contracted);
  const ids = contracted.flatMap(([service, version]) =>
    (pricingOf(service, version)?.pricing.features ?? []).map(({ name }) => `${service}-${name}`),
  );
  return <Samples userId={contract.userContact.userId} featureId={ids[0]} />;
}

/** Menu entries that change the contract at once. */
function WriteItems({ contract }: { contract: Contract }) {
  const { base } = useHere();
  const to = path`/contracts/${contract.userContact.userId}/usageLevels`;
  const acting = useActing("PUT", to);
  const billing = useBilling(contract);
  const reset = useChange({
    change: (_: undefined, attempt) =>
      call("PUT", to, {
        key: acting?.key,
        query: { ...acting?.query, reset: true },
        headers: { "idempotency-key": attempt },
        body: {},
      }),
    touches: () => [`${base}/contracts`],
    done: () => t.adjusted,
  });
  const renews = Object.values(contract.usageLevels).some((levels) =>
    Object.values(levels).some(({ resetTimeStamp }) => resetTimeStamp !== undefined),
  );
  return (
    <>
      {billing.acting === undefined ? null : (
        <MenuItem icon={CalendarPlus} onSelect={billing.extend}>
          {t.renewNow(String(contract.billingPeriod.renewalDays))}
        </MenuItem>
      )}
      {acting === undefined || !renews ? null : (
        <MenuItem icon={RefreshCw} onSelect={() => reset.mutate(undefined)}>
          {t.resetAll}
        </MenuItem>
      )}
    </>
  );
}

function DeleteContract({ contract, onClose }: { contract: Contract; onClose: () => void }) {
  const { base } = useHere();
  const go = useNavigate();
  const { userId } = contract.userContact;
  const { pricingOf } = usePricings(Object.entries(contract.contractedServices));
  const features = explainAll(contract, pricingOf, usageById(contract), { server: false });
  const on = features.filter(({ result }) => result.eval).length;
  const remove = useChange({
    change: () => call("DELETE", base + path`/contracts/${userId}`),
    touches: () => [`${base}/contracts`],
    gone: base + path`/contracts/${userId}`,
    done: () => t.deleted(userId),
    after: () => void go("../contracts"),
  });
  return (
    <Confirm
      title={t.deleteTitle(nameOf(contract))}
      action={t.delete}
      keep={t.keep}
      name={userId}
      change={remove}
      onClose={onClose}
    >
      <p>{t.deleteLead(nameOf(contract), formatNumber(on))}</p>
    </Confirm>
  );
}
