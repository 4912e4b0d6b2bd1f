import { useInfiniteQuery } from "@tanstack/react-query";
import { ListPlus, Pencil, Plus, Trash2, UsersRound } from "lucide-react";
import { useState } from "react";
import { useSearchParams } from "react-router";
import type { Contract, TeamMember, TeamPage } from "../answers.ts";
import { call, path } from "../api.ts";
import { Meter } from "../design/meter.tsx";
import { MenuItem, MoreMenu } from "../design/menu.tsx";
import { Empty, Loaded, Section } from "../design/page.tsx";
import { SearchBox } from "../design/search-box.tsx";
import { ShowMore } from "../design/show-more.tsx";
import { Table } from "../design/table.tsx";
import { formatLocalDay, formatMoment, formatName, formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { useSeats } from "../seats.ts";
import { texts } from "../texts.ts";
import { ImportTeam, RemoveMember, SaveMember } from "./team-dialogs.tsx";

const t = texts.team;
const PAGE_SIZE = 20;

/** Lists the people who use a contract, with the seats they take. Managers add, import and remove them. */
export function ContractTeam({ contract }: { contract: Contract }) {
  const { base, may } = useHere();
  const [search] = useSearchParams();
  const [asks, setAsks] = useState<"add" | "import" | { rename: TeamMember } | { remove: TeamMember }>();
  const { userId } = contract.userContact;
  const rest = path`/contracts/${userId}/members`;
  const to = base + rest;
  const q = search.get("member") ?? "";
  const pages = useInfiniteQuery({
    queryKey: [to, { q }, "pages"],
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam, signal }) =>
      call<TeamPage>("GET", to, { query: { q, limit: PAGE_SIZE, before: pageParam }, signal }),
    getNextPageParam: ({ next }) => next,
  });
  const mayAdd = may("PUT", rest);
  const close = () => setAsks(undefined);
  return (
    <Section
      title={t.title}
      lead={t.lead}
      actions={
        mayAdd ? (
          <>
            <button type="button" className="b" onClick={() => setAsks("import")}>
              <ListPlus />
              {t.import}
            </button>
            <button type="button" className="b" onClick={() => setAsks("add")}>
              <Plus />
              {t.add}
            </button>
          </>
        ) : null
      }
    >
      <Seats contract={contract} />
      <Loaded query={pages} lines={6}>
        {({ pages: answers }) => {
          const members = answers.flatMap(({ data }) => data);
          if (members.length === 0 && q === "") return <Empty icon={UsersRound}>{t.none}</Empty>;
          return (
            <>
              <div className="row between wrap">
                <SearchBox label={t.search} name="member" />
                <span className="small soft">{t.members(formatNumber(answers[0]?.total ?? 0))}</span>
              </div>
              {members.length === 0 ? (
                <Empty>{t.nothing}</Empty>
              ) : (
                <Table label={t.title} head={[t.member, t.used, t.since, ...(mayAdd ? [""] : [])]}>
                  {members.map((member) => (
                    <Row
                      key={member.id}
                      member={member}
                      services={Object.keys(contract.contractedServices)}
                      onRename={mayAdd ? () => setAsks({ rename: member }) : undefined}
                      onRemove={() => setAsks({ remove: member })}
                    />
                  ))}
                </Table>
              )}
              <ShowMore pages={pages} label={t.showMore} />
            </>
          );
        }}
      </Loaded>
      {asks === "add" ? <SaveMember to={to} onClose={close} /> : null}
      {asks === "import" ? <ImportTeam to={to} onClose={close} /> : null}
      {typeof asks === "object" && "rename" in asks ? (
        <SaveMember to={to} member={asks.rename} onClose={close} />
      ) : null}
      {typeof asks === "object" && "remove" in asks ? (
        <RemoveMember to={to} member={asks.remove} onClose={close} />
      ) : null}
    </Section>
  );
}

/** Shows how many seats are taken, where a pricing counts them. */
function Seats({ contract }: { contract: Contract }) {
  const [seats] = useSeats(contract);
  if (seats === undefined || typeof seats.limitNow !== "number") return null;
  const { consumed, limitNow, service, limit } = seats;
  return (
    <div className="meter-block" title={`${service}-${limit}`}>
      <span className="strong">{t.seats(formatNumber(consumed), formatNumber(limitNow))}</span>
      <Meter label={formatName(limit)} share={limitNow === 0 ? 1 : consumed / limitNow} />
    </div>
  );
}

function Row(props: {
  member: TeamMember;
  services: readonly string[];
  onRename: (() => void) | undefined;
  onRemove: () => void;
}) {
  const { id, name, used, createdAt } = props.member;
  const nameOf = (limit: string) =>
    formatName(limit.slice((props.services.find((each) => limit.startsWith(`${each}-`))?.length ?? -1) + 1));
  const amounts = Object.entries(used).map(([limit, amount]) => `${formatNumber(amount)} ${nameOf(limit)}`);
  return (
    <tr>
      <th scope="row">
        {name ?? id}
        {name === null ? null : <p className="hint mono">{id}</p>}
      </th>
      <td>
        {amounts.length > 0 ? (
          amounts.join(", ")
        ) : (
          <>
            <span aria-hidden="true">–</span>
            <span className="visually-hidden">{texts.common.none}</span>
          </>
        )}
      </td>
      <td>
        <time dateTime={createdAt} title={formatMoment(createdAt)}>
          {formatLocalDay(createdAt)}
        </time>
      </td>
      {props.onRename === undefined ? null : (
        <td>
          <span className="actions end">
            <MoreMenu label={t.more(id)} isSmall>
              <MenuItem icon={Pencil} onSelect={props.onRename}>
                {t.rename}
              </MenuItem>
              <MenuItem icon={Trash2} isBad onSelect={props.onRemove}>
                {t.remove}
              </MenuItem>
            </MoreMenu>
          </span>
        </td>
      )}
    </tr>
  );
}
