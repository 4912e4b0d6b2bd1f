import { Pencil, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import type { Contract, Override } from "../answers.ts";
import { Delta } from "../design/change.tsx";
import { MenuItem, MoreMenu } from "../design/menu.tsx";
import { Failed, Section } from "../design/page.tsx";
import { Status } from "../design/table.tsx";
import { formatLocalDay, formatMoment, formatName, formatValue } from "../format.ts";
import { texts } from "../texts.ts";
import { useTerms } from "./use-terms.ts";
import { TermEditor } from "./term-editor.tsx";

const t = texts.terms;
export const TONES = { active: "good", upcoming: "info", inapplicable: "warn", ended: "plain" } as const;

/** Lists a contract's exceptions that have not ended, and lets managers add and change them. */
export function CustomTerms({ contract }: { contract: Contract }) {
  const [edited, setEdited] = useState<Override | "new">();
  const { maySet } = useTerms(contract);
  const isNow = contract.asOf === undefined;
  const { overrides = [] } = contract;
  const hasElements = Object.keys(contract.contractedServices).length > 0;
  return (
    <Section
      title={t.title}
      actions={
        maySet && isNow && hasElements ? (
          <button type="button" className="b plain small" aria-label={t.addTo} onClick={() => setEdited("new")}>
            <Plus />
            {t.add}
          </button>
        ) : null
      }
    >
      {overrides.length === 0 ? <p className="small soft">{t.none}</p> : null}
      {overrides.map((override) => (
        <Term
          key={`${override.service} ${override.kind} ${override.name}`}
          override={override}
          contract={contract}
          onEdit={() => setEdited(override)}
        />
      ))}
      {edited === undefined ? null : (
        <TermEditor
          contract={contract}
          override={edited === "new" ? undefined : edited}
          onClose={() => setEdited(undefined)}
        />
      )}
    </Section>
  );
}

function Term(props: { override: Override; contract: Contract; onEdit: () => void }) {
  const { override, contract } = props;
  const { change, maySet, mayRemove } = useTerms(contract);
  const { name, state, from, until, reason } = override;
  const times = [
    ...(state === "upcoming" ? [t.begins(formatLocalDay(from))] : []),
    until === null ? `${t.noEnd}.` : t.ends(formatLocalDay(until)),
  ];
  return (
    <div className="term">
      <div className="row between">
        <b className="strong" title={`${override.service}-${name}`}>
          {formatName(name)}
        </b>
        <span className="row">
          <Values override={override} />
          {contract.asOf === undefined && (maySet || mayRemove) ? (
            <MoreMenu label={t.more(formatName(name))} isSmall>
              {maySet ? (
                <MenuItem icon={Pencil} onSelect={props.onEdit}>
                  {t.edit}
                </MenuItem>
              ) : null}
              {mayRemove ? (
                <MenuItem icon={Trash2} isBad onSelect={() => change.mutate({ element: override, body: undefined })}>
                  {t.remove}
                </MenuItem>
              ) : null}
            </MoreMenu>
          ) : null}
        </span>
      </div>
      {state === "active" ? null : <Status tone={TONES[state]}>{t.states[state]}</Status>}
      <p className="small soft" title={until === null ? undefined : formatMoment(until)}>
        {times.join(" ")} “{reason}”, {t.by(actorName(override))}
      </p>
      {isOutdone(override) ? <p className="small soft">{t.superfluous}</p> : null}
      <Failed error={change.error} />
    </div>
  );
}

/** The value that plan and add-ons give, and what the override makes of it. */
export function Values({ override }: { override: Override }) {
  const { granted, effective, state, mode, value } = override;
  if (state === "active") {
    return <Delta before={formatValue(granted ?? undefined)} after={formatValue(effective ?? undefined)} />;
  }
  const sign = mode === "add" && typeof value === "number" && value > 0 ? "+" : "";
  return <span className="soft">{sign + formatValue(value)}</span>;
}

/** True if the plan has caught up: without the override nothing would be less. */
const isOutdone = ({ state, mode, granted, value }: Override): boolean =>
  state === "active" &&
  mode === "set" &&
  (typeof granted === "number" && typeof value === "number"
    ? granted >= value
    : granted === true || JSON.stringify(granted) === JSON.stringify(value));

/** Name of an author. Keys may have none, and users may be deleted. */
export const actorName = ({ actor }: Pick<Override, "actor">): string =>
  actor.name ?? (actor.kind === "key" ? t.key : "–");
