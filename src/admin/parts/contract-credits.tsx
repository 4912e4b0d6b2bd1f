import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { sum } from "../../core/exact.ts";
import type { Balance, Block, BlockPage, Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { Delta } from "../design/change.tsx";
import { Confirm, Dialog } from "../design/dialog.tsx";
import { Field, Form, Select } from "../design/field.tsx";
import { MenuItem, MoreMenu } from "../design/menu.tsx";
import { Failed, Section } from "../design/page.tsx";
import { Status } from "../design/table.tsx";
import { formatLocalDay, formatMoment, formatName, formatNumber, formatValue, momentOf } from "../format.ts";
import { useHere } from "../here.tsx";
import { useAsk, useChange } from "../queries.ts";
import { texts } from "../texts.ts";
import { nameOf } from "./contact.tsx";
import { actorName } from "./custom-terms.tsx";
import { DatesAndReason } from "./dates-and-reason.tsx";

const t = texts.credits;
export const BLOCK_TONES = {
  upcoming: "info",
  open: "good",
  spent: "plain",
  expired: "plain",
  revoked: "bad",
} as const;

/** Lists a contract's credits that have not ended, and lets managers give and revoke them. */
export function ContractCredits({ contract }: { contract: Contract }) {
  const { base, may } = useHere();
  const [asks, setAsks] = useState<Block | "give">();
  const { userId } = contract.userContact;
  const to = path`/contracts/${userId}/blocks`;
  const isNow = contract.asOf === undefined;
  const from = isNow ? base + to : undefined;
  const open = useAsk<BlockPage>(from, { state: "open", limit: 100 });
  const upcoming = useAsk<BlockPage>(from, { state: "upcoming", limit: 100 });
  const limits = (contract.balances ?? []).filter(({ limitNow }) => typeof limitNow === "number");
  if (!isNow || limits.length === 0) return null;
  const blocks = [...(open.data?.data ?? []), ...(upcoming.data?.data ?? [])];
  const mayRevoke = may("DELETE", `${to}/x`);
  return (
    <Section
      title={t.title}
      actions={
        may("POST", to) ? (
          <button type="button" className="b plain small" onClick={() => setAsks("give")}>
            <Plus />
            {t.give}
          </button>
        ) : null
      }
    >
      <Failed error={open.error ?? upcoming.error} />
      {open.data !== undefined && blocks.length === 0 ? <p className="small soft">{t.none}</p> : null}
      {blocks.map((block) => (
        <Credit key={block.id} block={block} onRevoke={mayRevoke ? () => setAsks(block) : undefined} />
      ))}
      {asks === "give" ? <Give contract={contract} limits={limits} onClose={() => setAsks(undefined)} /> : null}
      {asks === undefined || asks === "give" ? null : (
        <Revoke contract={contract} block={asks} onClose={() => setAsks(undefined)} />
      )}
    </Section>
  );
}

function Credit({ block, onRevoke }: { block: Block; onRevoke: (() => void) | undefined }) {
  const { limit, service, amount, remaining, from, expiresAt, origin, reason, state } = block;
  const times = [
    ...(state === "upcoming" ? [t.begins(formatLocalDay(from))] : []),
    expiresAt === null ? t.noEnd : t.until(formatLocalDay(expiresAt)),
  ];
  const name = formatName(limit);
  return (
    <div className="term">
      <div className="row between">
        <b className="strong" title={`${service}-${limit}`}>
          {name}
        </b>
        <span className="row">
          {t.restOf(formatNumber(remaining), formatNumber(amount))}
          {onRevoke === undefined ? null : (
            <MoreMenu label={t.more(name)} isSmall>
              <MenuItem icon={Trash2} isBad onSelect={onRevoke}>
                {t.revoke}
              </MenuItem>
            </MoreMenu>
          )}
        </span>
      </div>
      {state === "open" ? null : <Status tone={BLOCK_TONES[state]}>{t.states[state]}</Status>}
      <p className="small soft" title={expiresAt === null ? undefined : formatMoment(expiresAt)}>
        {t.origins[origin]}, {times.join(", ")}. “{reason}”{origin === "given" ? `, ${t.by(actorName(block))}` : null}
      </p>
    </div>
  );
}

function Give(props: { contract: Contract; limits: readonly Balance[]; onClose: () => void }) {
  const { contract, limits } = props;
  const { base } = useHere();
  const { userId } = contract.userContact;
  const [draft, setDraft] = useState({ chosen: "", amount: "", from: "", until: "", reason: "" });
  const isNamed = Object.keys(contract.contractedServices).length > 1;
  const found = limits.find((each) => keyOf(each) === draft.chosen) ?? limits[0];
  const give = useChange({
    change: (body: object, attempt) =>
      call<Block>("POST", base + path`/contracts/${userId}/blocks`, { body: { ...body, key: attempt } }),
    touches: () => [`${base}/contracts`, `${base}/blocks`],
    done: () => t.given(nameOf(contract)),
    after: props.onClose,
  });
  if (found === undefined) return null;
  const amount = Number(draft.amount);
  const { service, limit, limitNow } = found;
  const save = () =>
    give.mutate({
      service,
      limit,
      amount,
      from: momentOf(draft.from) ?? null,
      expiresAt: momentOf(draft.until) ?? null,
      reason: draft.reason,
    });
  return (
    <Dialog title={t.giveTitle(nameOf(contract))} onClose={props.onClose}>
      <Form onSubmit={save}>
        <Select
          label={t.limit}
          value={keyOf(found)}
          onChange={(chosen) => setDraft({ ...draft, chosen })}
          options={limits.map((each) => [
            keyOf(each),
            isNamed ? `${each.service}: ${formatName(each.limit)}` : formatName(each.limit),
          ])}
        />
        <Field
          label={t.amount}
          type="number"
          step="any"
          min={0}
          value={draft.amount}
          onChange={(amount) => setDraft({ ...draft, amount })}
          required
        />
        {typeof limitNow === "number" && amount > 0 && draft.from === "" ? (
          <p className="row between" aria-live="polite">
            <span className="soft">{t.after}</span>
            <Delta before={formatValue(limitNow)} after={formatValue(sum(limitNow, amount))} tone="good" />
          </p>
        ) : null}
        <DatesAndReason
          draft={draft}
          labels={{ ...t, until: t.expiresAt, untilHint: t.expiresHint }}
          onChange={setDraft}
        />
        <Failed error={give.error} />
        <div className="actions end">
          <button type="submit" className="b primary" disabled={give.isPending}>
            {t.give}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

const keyOf = ({ service, limit }: Balance): string => `${service} ${limit}`;

function Revoke({ contract, block, onClose }: { contract: Contract; block: Block; onClose: () => void }) {
  const { base } = useHere();
  const revoke = useChange({
    change: () => call("DELETE", base + path`/contracts/${contract.userContact.userId}/blocks/${block.id}`),
    touches: () => [`${base}/contracts`, `${base}/blocks`],
    done: () => t.revoked,
    after: onClose,
  });
  const remaining = formatNumber(block.remaining);
  const isHeld = contract.balances?.some(
    ({ service, limit, held }) => held > 0 && service === block.service && limit === block.limit,
  );
  return (
    <Confirm
      title={t.revokeTitle(remaining, formatName(block.limit))}
      action={t.revoke}
      keep={t.keep}
      change={revoke}
      onClose={onClose}
    >
      <p>{t.revokeLead(nameOf(contract), remaining)}</p>
      {isHeld ? <p>{t.revokeHeld}</p> : null}
    </Confirm>
  );
}
