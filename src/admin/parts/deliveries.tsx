import { useState } from "react";
import type { Delivery, Webhook } from "../answers.ts";
import { call, path } from "../api.ts";
import { formatMoment } from "../format.ts";
import { useAsk, useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Select } from "../design/field.tsx";
import { Empty, Failed, Loaded, Section } from "../design/page.tsx";
import { Tag, Table } from "../design/table.tsx";

const t = texts.webhooks;
const TONES = { pending: "warn", delivered: "good", failed: "bad" } as const;
type Status = Delivery["status"] | "";

/** The delivery log of one webhook, newest first. */
export function Deliveries({ webhook, mayResend }: { webhook: Webhook; mayResend: boolean }) {
  const { base } = useHere();
  const to = base + path`/webhooks/${webhook.id}/deliveries`;
  const [status, setStatus] = useState<Status>("");
  const list = useAsk<Delivery[]>(to, { limit: 50, status });
  const resend = useChange({
    change: (id: string, key) => call("POST", `${to}${path`/${id}/resend`}`, { key }),
    touches: () => [to],
    done: () => t.resent,
  });
  return (
    <Section
      title={`${t.deliveries}: ${webhook.url}`}
      actions={
        <button type="button" className="b small" onClick={() => void list.refetch()}>
          {texts.common.retry}
        </button>
      }
    >
      <div className="fields">
        <Select
          label={t.filter}
          value={status}
          onChange={setStatus}
          options={[
            ["", texts.common.all],
            ["pending", t.status.pending],
            ["delivered", t.status.delivered],
            ["failed", t.status.failed],
          ]}
        />
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
                <tr key={delivery.id}>
                  <td>{formatMoment(delivery.lastAttemptAt ?? delivery.createdAt)}</td>
                  <th scope="row">
                    <span title={delivery.code}>{texts.events.words[delivery.code] ?? delivery.code}</span>
                  </th>
                  <td>
                    <Tag tone={TONES[delivery.status]}>{t.status[delivery.status]}</Tag>
                  </td>
                  <td className="right num">{delivery.attempts}</td>
                  <td>{delivery.error ?? delivery.responseStatus ?? "–"}</td>
                  <td className="right num">
                    {mayResend ? (
                      <button
                        type="button"
                        className="b small"
                        disabled={resend.isPending}
                        onClick={() => resend.mutate(delivery.id)}
                      >
                        {t.resend}
                      </button>
                    ) : null}
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Loaded>
    </Section>
  );
}
