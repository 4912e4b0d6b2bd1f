import { KeyRound, Settings, Unplug } from "lucide-react";
import { useState } from "react";
import type { BillingConnection } from "../answers.ts";
import { call, path } from "../api.ts";
import { bodyOf, STRIPE_EVENTS, targetOf, useConnection, useNewestPricings } from "../billing.ts";
import { Snippet } from "../design/copy.tsx";
import { Confirm, Dialog } from "../design/dialog.tsx";
import { Field, Form, Select } from "../design/field.tsx";
import { MenuItem, MenuLine, MoreMenu } from "../design/menu.tsx";
import { Failed, Section } from "../design/page.tsx";
import { formatMoment, formatNumber } from "../format.ts";
import { useHere } from "../here.tsx";
import { useChange } from "../queries.ts";
import { serviceKey } from "../services.ts";
import { texts } from "../texts.ts";

const t = texts.billing;
const ENDS = "";

/** Shows a connection with the address to copy, and changes its secret and settings. */
export function ConnectionSection({ connection }: { connection: BillingConnection }) {
  const { may } = useHere();
  const [asks, setAsks] = useState<"secret" | "settings" | "disconnect">();
  const { provider, url, secret, previousSecretUntil, userId, graceDays, ended } = connection;
  const close = () => setAsks(undefined);
  const left = Object.entries(ended).flatMap(([service, plan]) => (plan === null ? [] : [t.becomes(service, plan)]));
  return (
    <Section
      title={t.connection}
      actions={
        may("PUT", `/billing/${provider}`) ? (
          <>
            <button type="button" className="b" onClick={() => setAsks("settings")}>
              <Settings />
              {t.settings}
            </button>
            <MoreMenu label={texts.common.more}>
              <MenuItem icon={KeyRound} onSelect={() => setAsks("secret")}>
                {t.changeSecret}
              </MenuItem>
              <MenuLine />
              <MenuItem icon={Unplug} isBad onSelect={() => setAsks("disconnect")}>
                {t.disconnect}
              </MenuItem>
            </MoreMenu>
          </>
        ) : null
      }
    >
      <Snippet text={url} label={t.address} />
      <p className="small soft">{provider === "stripe" ? t.events(STRIPE_EVENTS.join(", ")) : t.standardEvents}</p>
      <dl className="facts">
        <Fact
          name={t.secretNow}
          value={secret}
          detail={previousSecretUntil === null ? "" : t.previousUntil(formatMoment(previousSecretUntil))}
        />
        <Fact name={t.userId} value={userId} detail="" />
        <Fact
          name={t.endedFact}
          value={left.length === 0 ? t.endsContract : left.join(", ")}
          detail={t.graceOf(formatNumber(graceDays))}
        />
      </dl>
      {asks === "secret" ? <ChangeSecret connection={connection} onClose={close} /> : null}
      {asks === "settings" ? <ChangeSettings connection={connection} onClose={close} /> : null}
      {asks === "disconnect" ? <Disconnect connection={connection} onClose={close} /> : null}
    </Section>
  );
}

function Fact({ name, value, detail }: { name: string; value: string; detail: string }) {
  return (
    <div className="fact">
      <dt>{name}</dt>
      <dd>{value}</dd>
      <dd>{detail}</dd>
    </div>
  );
}

interface Asked {
  connection: BillingConnection;
  onClose: () => void;
}

function ChangeSecret({ connection, onClose }: Asked) {
  const [secret, setSecret] = useState("");
  const change = useConnection(connection.provider, { done: () => t.secretSaved, after: onClose });
  return (
    <Dialog title={t.changeSecret} onClose={onClose}>
      <Form onSubmit={() => change.mutate({ ...bodyOf(connection), secret })}>
        <Field label={t.secret} hint={t.secretHint} type="password" value={secret} onChange={setSecret} required />
        <Failed error={change.error} />
        <div className="actions end">
          <button type="submit" className="b primary" disabled={change.isPending}>
            {t.changeSecret}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

function ChangeSettings({ connection, onClose }: Asked) {
  const [userId, setUserId] = useState(connection.userId);
  const [graceDays, setGraceDays] = useState(String(connection.graceDays));
  const [ended, setEnded] = useState(connection.ended);
  const pricings = useNewestPricings();
  const change = useConnection(connection.provider, { done: () => t.settingsSaved, after: onClose });
  const services = new Set(Object.values(connection.prices).map((mapped) => serviceKey(targetOf(mapped).service)));
  for (const service of Object.keys(connection.ended)) services.add(service);
  const plansOf = (service: string) =>
    pricings.find((each) => serviceKey(each.service) === service)?.pricing.pricing.plans.map(({ name }) => name) ?? [];
  return (
    <Dialog title={t.settings} onClose={onClose}>
      <Form onSubmit={() => change.mutate({ ...bodyOf(connection), userId, graceDays: Number(graceDays), ended })}>
        <Field label={t.userId} hint={t.userIdHint} value={userId} onChange={setUserId} required />
        <Field
          label={t.graceDays}
          hint={t.graceHint}
          type="number"
          min={0}
          max={60}
          value={graceDays}
          onChange={setGraceDays}
          required
        />
        {[...services].toSorted().map((service) => {
          const plan = ended[service] ?? ENDS;
          const plans = new Set([...(plan === ENDS ? [] : [plan]), ...plansOf(service)]);
          return (
            <Select
              key={service}
              label={t.ended(service)}
              value={plan}
              onChange={(chosen) => setEnded({ ...ended, [service]: chosen === ENDS ? null : chosen })}
              options={[[ENDS, t.endsContract], ...[...plans].map((name) => [name, t.becomes(service, name)] as const)]}
            />
          );
        })}
        <Failed error={change.error} />
        <div className="actions end">
          <button type="submit" className="b primary" disabled={change.isPending}>
            {texts.common.save}
          </button>
        </div>
      </Form>
    </Dialog>
  );
}

function Disconnect({ connection, onClose }: Asked) {
  const { base } = useHere();
  const { provider } = connection;
  const name = t.providers[provider];
  const remove = useChange({
    change: () => call("DELETE", base + path`/billing/${provider}`),
    touches: () => [`${base}/billing`, `${base}/contracts`],
    gone: base + path`/billing/${provider}/messages`,
    done: () => t.disconnected(name),
    after: onClose,
  });
  return (
    <Confirm
      title={t.disconnectTitle(name)}
      action={t.disconnect}
      keep={t.keepConnected}
      name={name}
      change={remove}
      onClose={onClose}
    >
      <p>{t.disconnectLead}</p>
    </Confirm>
  );
}
