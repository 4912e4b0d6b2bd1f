import type { Contract, HoldPage } from "../answers.ts";
import { path } from "../api.ts";
import { Section } from "../design/page.tsx";
import { formatDistance, formatMoment, formatName, formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { useAsk } from "../queries.ts";
import { texts } from "../texts.ts";
import { useNow } from "./usage-bar.tsx";

const t = texts.holds;
/** Interval of refreshing the list while it is visible: holds send no events. */
const REFRESH_MS = 10_000;

/** The open holds of a contract, newest first. Nothing if none holds anything. */
export function OpenHolds({ contract }: { contract: Contract }) {
  const { may } = useHere();
  const isHeld = Object.values(contract.usageLevels).some((levels) =>
    Object.values(levels).some(({ held = 0 }) => held > 0),
  );
  const { userId } = contract.userContact;
  const services = Object.keys(contract.contractedServices);
  if (!isHeld || contract.asOf !== undefined || !may("GET", path`/contracts/${userId}/holds`)) return null;
  return <Holds userId={userId} services={services} />;
}

function Holds({ userId, services }: { userId: string; services: readonly string[] }) {
  const { base } = useHere();
  const now = useNow();
  const holds = useAsk<HoldPage>(
    base + path`/contracts/${userId}/holds`,
    { limit: "100" },
    { refetchInterval: REFRESH_MS },
  );
  const limitOf = (id: string) =>
    id.slice((services.find((service) => id.startsWith(`${service}-`))?.length ?? -1) + 1);
  if (holds.data === undefined || holds.data.data.length === 0) return null;
  return (
    <Section title={t.title}>
      {holds.data.data.map(({ id, featureId, amounts, until, onExpiry }) => (
        <div key={id} className="term">
          <div className="row between">
            <b className="strong" title={featureId}>
              {Object.entries(amounts)
                .map(([limit, amount]) => `${formatNumber(amount)} ${formatName(limitOf(limit))}`)
                .join(", ")}
            </b>
            <time className="small soft" dateTime={until} title={formatMoment(until)}>
              {t.ends(formatDistance(until, now))}
            </time>
          </div>
          <p className="small soft">
            {featureId}. {onExpiry === "consume" ? t.consumes : t.releases}
          </p>
        </div>
      ))}
      {holds.data.next === null ? null : <p className="small soft">{t.more}</p>}
    </Section>
  );
}
