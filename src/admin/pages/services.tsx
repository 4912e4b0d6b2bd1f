import { Link, useSearchParams } from "react-router";
import type { Service } from "../answers.ts";
import { path } from "../api.ts";
import { formatNumber } from "../format.ts";
import { Empty, Loaded, Page } from "../design/page.tsx";
import { Pager } from "../design/pager.tsx";
import { SearchBox } from "../design/search-box.tsx";
import { Tag, Table } from "../design/table.tsx";
import { useContractCount, useServices } from "../services.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";

const t = texts.services;
/** Each row requests the count of its contracts. */
const PAGE_SIZE = 50;

export function ServicesPage() {
  const here = useHere();
  const services = useServices();
  const [search] = useSearchParams();
  const page = Math.max(1, Math.trunc(Number(search.get("page"))) || 1);
  const wanted = (search.get("q") ?? "").toLowerCase();
  const upload = here.may("POST", "/services") ? (
    <Link className="b primary" to="../upload">
      {t.upload}
    </Link>
  ) : null;
  return (
    <Page title={t.title} lead={t.lead} actions={upload}>
      <SearchBox label={t.search} />
      <Loaded query={services}>
        {(all) => {
          const shown = all.filter(({ name }) => name.toLowerCase().includes(wanted));
          if (shown.length === 0) return <Empty action={upload}>{all.length === 0 ? t.empty : t.noMatch}</Empty>;
          return (
            <>
              <Table label={t.title} head={[texts.services.name, t.timeline, texts.shell.pages.contracts]}>
                {shown.slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE).map((service) => (
                  <Row key={service.id} service={service} />
                ))}
              </Table>
              <Pager page={page} pages={Math.ceil(shown.length / PAGE_SIZE)} total={shown.length} size={PAGE_SIZE} />
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

function Row({ service }: { service: Service }) {
  const count = useContractCount(service.name);
  const active = Object.keys(service.activePricings);
  const archived = Object.keys(service.archivedPricings ?? {});
  return (
    <tr>
      <th scope="row">
        <Link to={path`${service.name}`}>{service.name}</Link>
      </th>
      <td>
        <Tag tone="good">{t.versions(active.length, archived.length)}</Tag>
      </td>
      <td className="right num">
        <Link to={`../contracts?service=${encodeURIComponent(service.name)}`}>
          {count === undefined ? "…" : formatNumber(count)}
        </Link>
      </td>
    </tr>
  );
}
