import { useQuery } from "@tanstack/react-query";
import { API_URL } from "../api.ts";
import { formatNumber } from "../format.ts";
import { Page } from "../design/page.tsx";
import { Tag, Table } from "../design/table.tsx";
import { texts } from "../texts.ts";

const t = texts.health;
const EVERY_MS = 10_000;

/** Checks and their URLs. Liveness and readiness probes live outside /api/v1, the channel's status inside. */
const CHECKS = [
  ["live", "../../live"],
  ["ready", "../../ready"],
  ["channel", "events/status"],
] as const;

export function HealthPage() {
  return (
    <Page title={t.title} lead={t.lead}>
      <Table label={t.title} head={[t.what, t.state, t.took]}>
        {CHECKS.map(([name, to]) => (
          <CheckRow key={name} name={t.checks[name]} to={to} />
        ))}
      </Table>
      <p className="hint">{t.explain}</p>
    </Page>
  );
}

function CheckRow({ name, to }: { name: string; to: string }) {
  const check = useQuery({
    queryKey: ["health", to],
    queryFn: async ({ signal }) => {
      const began = performance.now();
      const answer = await fetch(new URL(to, `${API_URL}/`), { signal, cache: "no-store" });
      const { reason } = (await answer.json()) as { reason?: string };
      if (!answer.ok) throw new Error(reason ?? texts.errors.status(answer.status));
      return performance.now() - began;
    },
    refetchInterval: EVERY_MS,
    staleTime: 0,
    retry: false,
  });
  const isDown = check.error !== null;
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>
        {check.isPending ? "…" : <Tag tone={isDown ? "bad" : "good"}>{isDown ? t.down : t.up}</Tag>}{" "}
        {check.error?.message}
      </td>
      <td className="right num">
        {check.data === undefined ? "–" : t.milliseconds(formatNumber(Math.round(check.data)))}
      </td>
    </tr>
  );
}
