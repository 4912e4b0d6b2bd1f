import { RefreshCw } from "lucide-react";
import { Fragment, useState } from "react";
import type { Delivery, Webhook } from "../answers.ts";
import { call, path } from "../api.ts";
import { formatMoment, formatNumber } from "../format.ts";
import { useAsk, useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Segment } from "../design/field.tsx";
import { Empty, Failed, Loaded, Section } from "../design/page.tsx";
import { Status, Table } from "../design/table.tsx";

const t = texts.webhooks;
const TONES = { pending: "warn", delivered: "good", failed: "bad" } as const;
const STRIP = 24;
type Chosen = Delivery["status"] | "";

/** The delivery log of one webhook, newest first. */
export function Deliveries({ webhook, mayResend }: { webhook: Webhook; mayResend: boolean }) {
  const { base } = useHere();
  const to = base + path`/webhooks/${webhook.id}/deliveries`;
  const [status, setStatus] = useState<Chosen>("");
  const list = useAsk<Delivery[]>(to, { limit: 50, status });
  const resend = useChange({
    change: (id: string) => call("POST", `${to}${path`/${id}/resend`}`),
    touches: () => [to],
    done: () => t.resent,
  });
  return (
    <Section
      title={t.deliveriesTo(new URL(webhook.url).host)}
      actions={
        <button type="button" className="b small" onClick={() => void list.refetch()}>
          <RefreshCw />
          {t.refresh}
        </button>
      }
    >
      <div className="row between wrap">
        <Segment
          label={t.filter}
          value={status}
          onChange={setStatus}
          options={[
            ["", texts.common.all],
            ["delivered", t.status.delivered],
            ["pending", t.status.pending],
            ["failed", t.status.failed],
          ]}
        />
        {status === "" ? <Strip deliveries={list.data ?? []} /> : null}
      </div>
      <Failed error={resend.error} />
      <Loaded query={list}>
        {(all) =>
          all.length === 0 ? (
            <Empty>{t.noDeliveries}</Empty>
          ) : (
            <Table
              label={t.deliveries}
              head={[texts.events.when, texts.events.code, t.state, t.attempts, t.answer, ""]}
            >
              {all.map((delivery) => (
                <Row
                  key={delivery.id}
                  delivery={delivery}
                  onResend={mayResend ? () => resend.mutate(delivery.id) : undefined}
                  isBusy={resend.isPending}
                />
              ))}
            </Table>
          )
        }
      </Loaded>
    </Section>
  );
}

/** The last deliveries as one mark each, the newest right. */
function Strip({ deliveries }: { deliveries: readonly Delivery[] }) {
  const shown = deliveries.slice(0, STRIP).toReversed();
  if (shown.length === 0) return null;
  const delivered = shown.filter(({ status }) => status === "delivered").length;
  return (
    <span className="row">
      <span className="strip" aria-hidden="true">
        {shown.map(({ id, status }) => (
          <i key={id} className={STRIP_FILLS[status]} />
        ))}
      </span>
      <span className="small soft">{t.lastDelivered(formatNumber(delivered), formatNumber(shown.length))}</span>
    </span>
  );
}
const STRIP_FILLS = { pending: "fw", delivered: "fg", failed: "fb" } as const;

function Row(props: { delivery: Delivery; onResend: (() => void) | undefined; isBusy: boolean }) {
  const { delivery, onResend } = props;
  const [isOpen, setIsOpen] = useState(false);
  return (
    <Fragment>
      <tr>
        <td>{formatMoment(delivery.lastAttemptAt ?? delivery.createdAt)}</td>
        <th scope="row">
          <span title={delivery.code}>{texts.events.words[delivery.code] ?? delivery.code}</span>
        </th>
        <td>
          <Status tone={TONES[delivery.status]}>{t.status[delivery.status]}</Status>
        </td>
        <td className="right num">{delivery.attempts}</td>
        <td>
          {delivery.error ?? delivery.responseStatus ?? "–"}
          {delivery.durationMs === null ? null : (
            <span className="small faint"> {t.took(formatNumber(delivery.durationMs))}</span>
          )}
        </td>
        <td>
          <span className="actions end">
            <button type="button" className="b small" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
              {t.showBody}
            </button>
            {onResend === undefined ? null : (
              <button type="button" className="b small" disabled={props.isBusy} onClick={onResend}>
                {t.resend}
              </button>
            )}
          </span>
        </td>
      </tr>
      {isOpen ? (
        <tr>
          <td colSpan={6}>
            <pre className="code" tabIndex={0} aria-label={t.body}>
              {indented(delivery.payload)}
            </pre>
          </td>
        </tr>
      ) : null}
    </Fragment>
  );
}

const indented = (json: string): string => JSON.stringify(JSON.parse(json), undefined, 2);
