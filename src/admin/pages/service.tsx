import { FileClock, FolderDown, GitCompareArrows, MoveRight, Power, Tag as TagIcon, Upload } from "lucide-react";
import { useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import type { Service, WirePricing } from "../answers.ts";
import { call, path } from "../api.ts";
import { Confirm } from "../design/dialog.tsx";
import { MenuItem, MenuLine, MoreMenu } from "../design/menu.tsx";
import { Loaded, Note, Page } from "../design/page.tsx";
import { Status } from "../design/table.tsx";
import { draftsOf } from "../drafts.ts";
import { useTell } from "../design/toast.tsx";
import { formatDay, formatNumber } from "../format.ts";
import { save } from "../save.ts";
import { PricingTabs } from "../parts/pricing-tabs.tsx";
import { ServiceChanges } from "../parts/service-changes.tsx";
import { ServiceUpcoming } from "../parts/upcoming.tsx";
import { useAsk, useChange } from "../queries.ts";
import { byDate, serviceKey, useContractCount } from "../services.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";

const t = texts.services;

interface Version {
  pricing: WirePricing;
  status: "active" | "archived";
}

/** A service: its versions in time, and the pricing of one. Default: the newest active version. */
export function ServicePage() {
  const here = useHere();
  const { service: name = "", version } = useParams();
  const service = useAsk<Service>(here.base + path`/services/${name}`);
  const to = here.base + path`/services/${name}/pricings`;
  const active = useAsk<WirePricing[]>(to, { pricingStatus: "active" });
  const archived = useAsk<WirePricing[]>(to, { pricingStatus: "archived" });
  const home = `/o/${here.organization.id}`;
  const place = home + path`/services/${name}`;
  return (
    <Page
      title={service.data?.name ?? name}
      crumbs={[[t.title, `${home}/services`]]}
      meta={service.data === undefined ? null : <Meta service={service.data} />}
      actions={<Actions name={name} place={place} home={home} />}
    >
      <Loaded query={service}>
        {(data) => (
          <Loaded query={active}>
            {(now) => (
              <Loaded query={archived}>
                {(before) => {
                  // The two lists arrive separately: right after an archiving, a version can be in both.
                  const isArchived = new Set(before.map((pricing) => pricing.version));
                  const current = now.filter((pricing) => !isArchived.has(pricing.version)).toSorted(byDate);
                  const versions: Version[] = [
                    ...current.map((pricing) => ({ pricing, status: "active" as const })),
                    ...before.map((pricing) => ({ pricing, status: "archived" as const })),
                  ].sort((one, other) => byDate(other.pricing, one.pricing));
                  const newest = current[0]?.version;
                  const shown =
                    versions.find(({ pricing }) => pricing.version === (version ?? newest)) ?? versions.at(-1);
                  return (
                    <>
                      <Timeline place={place} service={data} versions={versions} shown={shown} newest={newest} />
                      <Draft service={data.name} home={home} />
                      {shown === undefined ? null : (
                        <PricingTabs
                          key={shown.pricing.version}
                          service={data.name}
                          pricing={shown.pricing}
                          actions={
                            <VersionActions
                              place={place}
                              service={data.name}
                              version={shown}
                              isOnlyActive={current.length === 1}
                            />
                          }
                        />
                      )}
                      <ServiceUpcoming serviceName={data.name} />
                      <ServiceChanges service={data} />
                    </>
                  );
                }}
              </Loaded>
            )}
          </Loaded>
        )}
      </Loaded>
    </Page>
  );
}

function Meta({ service }: { service: Service }) {
  const { organization } = useHere();
  const count = useContractCount(service.name);
  return (
    <>
      <span>{t.activeVersions(formatNumber(Object.keys(service.activePricings).length))}</span>
      <Link className="link" to={`/o/${organization.id}/contracts?service=${encodeURIComponent(service.name)}`}>
        {count === undefined ? "…" : t.contracts(formatNumber(count))}
      </Link>
      <span className="not-phone">{t.featureIds(serviceKey(service.name))}</span>
    </>
  );
}

function Actions({ name, place, home }: { name: string; place: string; home: string }) {
  const here = useHere();
  const go = useNavigate();
  const tell = useTell();
  const mayWrite = here.may("POST", path`/services/${name}/pricings`);
  const download = async () => {
    try {
      const [{ readServiceFiles }, { zipOf }] = await Promise.all([import("../service-files.ts"), import("../zip.ts")]);
      save(zipOf(await readServiceFiles(here.base, name)), `${serviceKey(name)}.zip`);
    } catch (error) {
      tell(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <>
      <Link className="b" to={`${place}/compare`}>
        <GitCompareArrows />
        {t.compare}
      </Link>
      {mayWrite ? (
        <Link className="b primary" to={`${home}/upload?service=${encodeURIComponent(name)}`}>
          <Upload />
          {t.addVersion}
        </Link>
      ) : null}
      <MoreMenu label={texts.common.more}>
        <MenuItem icon={FolderDown} onSelect={() => void download()}>
          {t.downloadFiles}
        </MenuItem>
        <MenuItem icon={TagIcon} onSelect={() => void go(`${place}/price-page`)}>
          {texts.pricePage.link}
        </MenuItem>
        {here.may("GET", path`/services/${name}/decisions`) ? (
          <MenuItem icon={FileClock} onSelect={() => void go(`${place}/decisions`)}>
            {t.decisions}
          </MenuItem>
        ) : null}
        {mayWrite ? (
          <MenuItem icon={MoveRight} onSelect={() => void go(`${place}/novate`)}>
            {t.novate}
          </MenuItem>
        ) : null}
        {here.may("DELETE", path`/services/${name}`) ? (
          <>
            <MenuLine />
            <MenuItem icon={Power} isBad onSelect={() => void go(`${place}/disable`)}>
              {t.disable}
            </MenuItem>
          </>
        ) : null}
      </MoreMenu>
    </>
  );
}

/** Offers a text that was begun in this browser and not saved. */
function Draft({ service, home }: { service: string; home: string }) {
  const { organization } = useHere();
  if (draftsOf(organization.id, service).length === 0) return null;
  return (
    <Note
      action={
        <Link className="b small" to={`${home}/upload?service=${encodeURIComponent(service)}`}>
          {t.resume}
        </Link>
      }
    >
      <b className="strong">{t.status.draft}.</b> <span className="soft">{t.draft}</span>
    </Note>
  );
}

/** The versions by date, oldest left, each with its state and contracts. */
function Timeline(props: {
  place: string;
  service: Service;
  versions: readonly Version[];
  shown: Version | undefined;
  newest: string | undefined;
}) {
  return (
    <ol className="versions" aria-label={t.timeline}>
      {props.versions.map((version) => (
        <li
          key={version.pricing.version}
          className={`${version === props.shown ? "here" : ""} ${version.status === "archived" ? "past" : ""}`}
        >
          <VersionLink {...props} version={version} />
        </li>
      ))}
    </ol>
  );
}

function VersionLink(props: {
  place: string;
  service: Service;
  version: Version;
  shown: Version | undefined;
  newest: string | undefined;
}) {
  const { pricing, status } = props.version;
  const { version } = pricing;
  const count = useContractCount(props.service.name, version);
  return (
    <Link
      to={props.place + path`/versions/${version}`}
      aria-current={props.version === props.shown ? "true" : undefined}
    >
      <i className="dot" />
      <b>
        <span className="visually-hidden">{t.openVersion} </span>
        {version}
      </b>
      <Status tone={status === "active" ? "good" : "plain"}>
        {version === props.newest ? t.newest : t.status[status]}
      </Status>
      <span className="small faint">{formatDay(pricing.createdAt)}</span>
      <span className="small">
        {count === undefined ? "…" : count === 0 ? t.noContracts : t.contracts(formatNumber(count))}
      </span>
    </Link>
  );
}

/** The actions on one version. */
function VersionActions(props: { place: string; service: string; version: Version; isOnlyActive: boolean }) {
  const here = useHere();
  const { place, service } = props;
  const { pricing, status } = props.version;
  const { version } = pricing;
  const to = path`/services/${service}/pricings/${version}`;
  return (
    <>
      <Link className="b small" to={`${place}/compare?to=${encodeURIComponent(version)}`}>
        {t.compareTo}
      </Link>
      {here.may("PUT", to) ? (
        status === "archived" ? (
          <Link className="b small" to={place + path`/activate/${version}`}>
            {t.activate}
          </Link>
        ) : props.isOnlyActive ? (
          <button type="button" className="b small" disabled title={t.onlyActive}>
            {t.archive}
          </button>
        ) : (
          <Link className="b small" to={place + path`/archive/${version}`}>
            {t.archive}
          </Link>
        )
      ) : null}
      {status === "archived" && here.may("DELETE", to) ? (
        <DeleteVersion service={service} version={version} place={place} />
      ) : null}
    </>
  );
}

function DeleteVersion({ service, version, place }: { service: string; version: string; place: string }) {
  const [isAsking, setIsAsking] = useState(false);
  const { base } = useHere();
  const go = useNavigate();
  const remove = useChange({
    change: () => call("DELETE", base + path`/services/${service}/pricings/${version}`),
    touches: () => [`${base}/services`],
    gone: base + path`/services/${service}/pricings/${version}`,
    done: () => t.versionDeleted(version),
    after: () => void go(place, { replace: true }),
  });
  return (
    <>
      <button type="button" className="b small danger" onClick={() => setIsAsking(true)}>
        {t.deleteVersion}
      </button>
      {isAsking ? (
        <Confirm
          title={`${t.deleteVersion} ${version}`}
          action={t.deleteVersion}
          name={version}
          change={remove}
          onClose={() => setIsAsking(false)}
        >
          <p>{t.deleteVersionLead}</p>
        </Confirm>
      ) : null}
    </>
  );
}
