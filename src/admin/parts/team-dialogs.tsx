import { useState } from "react";
import type { TeamCounts, TeamMember } from "../answers.ts";
import { call, path } from "../api.ts";
import { Confirm, Dialog } from "../design/dialog.tsx";
import { Area, Field, Form } from "../design/field.tsx";
import { GuardedButton } from "../design/guarded-button.tsx";
import { Failed } from "../design/page.tsx";
import { formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { useChange } from "../queries.ts";
import { texts } from "../texts.ts";

const t = texts.team;

/** Adds a member, or gives an existing one another name. */
export function SaveMember(props: { to: string; member?: TeamMember; onClose: () => void }) {
  const { to, member, onClose } = props;
  const { base } = useHere();
  const [id, setId] = useState(member?.id ?? "");
  const [name, setName] = useState(member?.name ?? "");
  const save = useChange({
    change: (body: { name: string | null }) => call("PUT", to + path`/${id}`, { body }),
    touches: () => [`${base}/contracts`],
    done: () => (member === undefined ? t.added(id) : t.renamed(id)),
    after: onClose,
  });
  return (
    <Dialog title={member === undefined ? t.add : t.renameTitle(id)} onClose={onClose}>
      <Form onSubmit={() => save.mutate({ name: name.trim() === "" ? null : name.trim() })}>
        {member === undefined ? <Field label={t.id} hint={t.idHint} value={id} onChange={setId} required /> : null}
        <Field label={t.name} hint={t.nameHint} value={name} onChange={setName} />
        <Failed error={save.error} />
        <div className="actions end">
          <button type="submit" className="b primary" disabled={save.isPending}>
            {member === undefined ? t.add : t.save}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

/** Reads one member per line: an id and, after the first comma or tab, a name. */
function membersIn(text: string): { id: string; name: string | null }[] {
  return text.split("\n").flatMap((line) => {
    const at = line.search(/[,\t]/);
    const id = (at < 0 ? line : line.slice(0, at)).trim();
    const name = at < 0 ? "" : line.slice(at + 1).trim();
    return id === "" && name === "" ? [] : [{ id, name: name === "" ? null : name }];
  });
}

/** Replaces the whole team by a list. */
export function ImportTeam({ to, onClose }: { to: string; onClose: () => void }) {
  const { base } = useHere();
  const [text, setText] = useState("");
  const data = membersIn(text);
  const replace = useChange({
    change: (body: { data: typeof data }) => call<TeamCounts>("PUT", to, { body }),
    touches: () => [`${base}/contracts`],
    done: ({ added, removed, changed }) =>
      t.imported(formatNumber(added), formatNumber(removed), formatNumber(changed)),
    after: onClose,
  });
  return (
    <Dialog title={t.import} onClose={onClose}>
      <Form
        onSubmit={() => {
          if (data.length > 0) replace.mutate({ data });
        }}
      >
        <p>{t.importLead}</p>
        <Area label={t.list} hint={t.listHint} rows={8} value={text} onChange={setText} isCode />
        <Failed error={replace.error} />
        <div className="actions end">
          <GuardedButton
            className="b primary"
            reason={data.length === 0 ? t.nobodyListed : undefined}
            isBusy={replace.isPending}
          >
            {data.length === 0 ? t.import : t.replace(formatNumber(data.length))}
          </GuardedButton>
        </div>
      </Form>
    </Dialog>
  );
}

/** Asks before a member is removed. */
export function RemoveMember(props: { to: string; member: TeamMember; onClose: () => void }) {
  const { id, name } = props.member;
  const { base } = useHere();
  const remove = useChange({
    change: () => call("DELETE", props.to + path`/${id}`),
    touches: () => [`${base}/contracts`],
    done: () => t.removed(name ?? id),
    after: props.onClose,
  });
  return (
    <Confirm title={t.removeTitle(name ?? id)} action={t.remove} keep={t.keep} change={remove} onClose={props.onClose}>
      <p>{t.removeLead(name ?? id)}</p>
    </Confirm>
  );
}
