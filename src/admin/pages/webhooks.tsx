import { KeyRound, Pause, Play, Trash2 } from "lucide-react";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { EVENT_CODES } from "../../core/event-messages.ts";
import type { Webhook } from "../answers.ts";
import { call, path } from "../api.ts";
import { Deliveries } from "../parts/deliveries.tsx";
import { Confirm, Dialog } from "../design/dialog.tsx";
import { Check, Field, Form } from "../design/field.tsx";
import { MenuItem, MenuLine, MoreMenu } from "../design/menu.tsx";
import { Empty, Failed, Loaded, Page, Section } from "../design/page.tsx";
import { SecretText } from "../parts/secret.tsx";
import { Status, Table } from "../design/table.tsx";
import { useAsk, useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { formatDistance, formatNumber } from "../format.ts";
import { texts } from "../texts.ts";

const t = texts.webhooks;
const TONES = { enabled: "good", failing: "bad", disabled: "plain", suspended: "bad" } as const;

/** The state in words: an enabled webhook whose last attempts failed is failing. */
const stateOf = ({ state, failures }: Webhook): keyof typeof TONES =>
  state === "enabled" && failures > 0 ? "failing" : state;

export function WebhooksPage() {
  const { base, may } = useHere();
  const list = useAsk<Webhook[]>(`${base}/webhooks`);
  const [search, setSearch] = useSearchParams();
  const [secret, setSecret] = useState<string>();
  const [deleted, setDeleted] = useState<Webhook>();
  const mayWrite = may("POST", "/webhooks");
  const shown = list.data?.find(({ id }) => id === search.get("webhook"));
  return (
    <Page title={t.title} lead={t.lead}>
      <Section title={t.title}>
        <Loaded query={list}>
          {(all) =>
            all.length === 0 ? (
              <Empty>{t.empty}</Empty>
            ) : (
              <Table label={t.title} head={[t.url, t.codes, t.state, ""]}>
                {all.map((webhook) => (
                  <Row
                    key={webhook.id}
                    webhook={webhook}
                    mayWrite={mayWrite}
                    onSecret={setSecret}
                    onDelete={() => setDeleted(webhook)}
                    onDeliveries={() => setSearch({ webhook: webhook.id })}
                  />
                ))}
              </Table>
            )
          }
        </Loaded>
      </Section>
      {mayWrite ? <Add onSecret={setSecret} /> : null}
      {shown === undefined ? null : <Deliveries webhook={shown} mayResend={mayWrite} />}
      {secret === undefined ? null : (
        <Dialog title={t.secretTitle} onClose={() => setSecret(undefined)}>
          <p>{t.secretLead}</p>
          <SecretText text={secret} label={t.secretTitle} />
        </Dialog>
      )}
      {deleted === undefined ? null : <Delete webhook={deleted} onClose={() => setDeleted(undefined)} />}
    </Page>
  );
}

function Row(props: {
  webhook: Webhook;
  mayWrite: boolean;
  onSecret: (secret: string) => void;
  onDelete: () => void;
  onDeliveries: () => void;
}) {
  const { webhook, mayWrite } = props;
  const { base } = useHere();
  const to = base + path`/webhooks/${webhook.id}`;
  const touches = () => [`${base}/webhooks`];
  const toggle = useChange({
    change: (enabled: boolean) => call("PUT", to, { body: { enabled } }),
    touches,
    done: (_, enabled) => (enabled ? t.resumed : t.paused),
    undo: (_, enabled) =>
      webhook.state === "suspended" || enabled === (webhook.state === "enabled") ? undefined : !enabled,
  });
  const rotate = useChange({
    change: () => call<{ secret: string }>("POST", `${to}/secret`),
    touches,
    after: ({ secret }) => props.onSecret(secret),
  });
  return (
    <tr>
      <th scope="row">
        {webhook.url}
        {webhook.description === null ? null : <p className="hint">{webhook.description}</p>}
      </th>
      <td>{webhook.codes?.map((code) => texts.events.words[code] ?? code).join(", ") ?? t.allCodes}</td>
      <td>
        <Status tone={TONES[stateOf(webhook)]}>{t.states[stateOf(webhook)]}</Status>
        {webhook.suspendedReason === null ? null : <p className="hint">{webhook.suspendedReason}</p>}
        {stateOf(webhook) === "failing" && webhook.failingSince !== null ? (
          <p className="hint">
            {t.failedSince(formatNumber(webhook.failures), formatDistance(webhook.failingSince, Date.now()))}
          </p>
        ) : null}
        <Failed error={toggle.error ?? rotate.error} />
      </td>
      <td>
        <span className="actions end">
          <button type="button" className="b small" onClick={props.onDeliveries}>
            {t.showDeliveries}
          </button>
          {mayWrite ? (
            <MoreMenu label={t.more(new URL(webhook.url).host)} isSmall>
              <MenuItem
                icon={webhook.state === "enabled" ? Pause : Play}
                onSelect={() => toggle.mutate(webhook.state !== "enabled")}
              >
                {webhook.state === "enabled" ? t.disable : t.enable}
              </MenuItem>
              <MenuItem icon={KeyRound} onSelect={() => rotate.mutate(undefined)}>
                {t.rotate}
              </MenuItem>
              <MenuLine />
              <MenuItem icon={Trash2} isBad onSelect={props.onDelete}>
                {t.delete}
              </MenuItem>
            </MoreMenu>
          ) : null}
        </span>
      </td>
    </tr>
  );
}

function Add({ onSecret }: { onSecret: (secret: string) => void }) {
  const { base } = useHere();
  const [url, setUrl] = useState("");
  const [description, setDescription] = useState("");
  const [codes, setCodes] = useState<readonly string[]>([]);
  const add = useChange({
    change: () =>
      call<{ secret: string }>("POST", `${base}/webhooks`, {
        body: { url, description: description || null, codes: codes.length === 0 ? null : codes },
      }),
    touches: () => [`${base}/webhooks`],
    done: () => t.added,
    after: ({ secret }) => {
      setUrl("");
      onSecret(secret);
    },
  });
  return (
    <Section title={t.addTitle}>
      <Form onSubmit={() => add.mutate(undefined)}>
        <div className="fields">
          <Field label={t.url} hint={t.urlHint} type="url" value={url} onChange={setUrl} required />
          <Field label={t.description} value={description} onChange={setDescription} />
        </div>
        <fieldset>
          <legend>{`${t.codes} (${codes.length === 0 ? t.allCodes : codes.length})`}</legend>
          <div className="checks">
            {EVENT_CODES.map((code) => (
              <Check
                key={code}
                label={texts.events.words[code] ?? code}
                checked={codes.includes(code)}
                onChange={(isChosen) => setCodes(isChosen ? [...codes, code] : codes.filter((each) => each !== code))}
              />
            ))}
          </div>
        </fieldset>
        <Failed error={add.error} />
        <div className="actions">
          <button type="submit" className="b primary" disabled={add.isPending}>
            {t.add}
          </button>
        </div>
      </Form>
    </Section>
  );
}

function Delete({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const { base } = useHere();
  const to = base + path`/webhooks/${webhook.id}`;
  const { host } = new URL(webhook.url);
  const remove = useChange({
    change: () => call("DELETE", to),
    touches: () => [`${base}/webhooks`],
    gone: to,
    done: () => t.deleted,
    after: onClose,
  });
  return (
    <Confirm title={t.deleteTitle} action={t.delete} name={host} change={remove} onClose={onClose}>
      <p>{t.deleteLead}</p>
      <p>
        <code>{webhook.url}</code>
      </p>
    </Confirm>
  );
}
