import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { createTestApi, type TestApi } from "../support/api.ts";
import { METRICS_TOKEN, type RunningServer, startEventServer, testKeyring } from "../support/event-server.ts";
import { type MailServer, openMailServer } from "../support/mail-server.ts";

let api: TestApi;
let mailServer: MailServer;
const servers: RunningServer[] = [];

beforeAll(async () => {
  const keyring = await testKeyring();
  api = await createTestApi({ settings: { sendsMail: true }, resources: { keyring } });
  // The event server has the clock of the machine.
  api.setNow(new Date());
});
afterAll(() => api.close());
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.stop()));
  await mailServer.close();
});

const start = async (runtime: "built Node" | "Bun") => {
  const server = await startEventServer(
    api.database.url,
    {
      SMTP_URL: mailServer.url,
      MAIL_FROM: "no-reply@faregate.example",
      PUBLIC_URL: "https://faregate.example",
      METRICS_TOKEN,
    },
    runtime,
  );
  servers.push(server);
  return server;
};
const invite = async (email: string) => {
  const path = `/organizations/${api.callers.organizationId}/invitations`;
  const body = { role: "EVALUATOR", email };
  const answer = await api.call<{ url: string }>("POST", path, { key: api.callers.owner.key, body });
  expect(answer.status).toBe(201);
  return answer.body;
};
const metric = async ({ url }: RunningServer, line: string) => {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } });
  return (await answer.text()).includes(line);
};

describe.each(["built Node", "Bun"] as const)("an event server on %s", (runtime) => {
  it("sends mails, counts them, and after SIGKILL repeats no more than the one in flight", async () => {
    mailServer = await openMailServer();
    const { client } = api.database.connection;
    await client`delete from mails`;
    const killed = await start(runtime);
    const { url } = await invite("first@example.com");
    await expect.poll(() => mailServer.received.length).toBe(1);
    expect(mailServer.received[0]?.text).toContain(url.split("/").at(-1));
    await expect.poll(() => metric(killed, 'faregate_mails_total{outcome="sent"} 1')).toBe(true);
    // The mail server has taken the next one, and its answer does not arrive any more.
    let release = () => {};
    mailServer.beforeAnswer = () => new Promise((resolve) => (release = resolve));
    for (let i = 0; i < 5; i += 1) await invite(`user-${i}@example.com`);
    await expect.poll(() => mailServer.received.length).toBe(2);
    killed.process.kill("SIGKILL");
    servers.splice(0);
    release();
    mailServer.beforeAnswer = async () => {};
    // Ends the dead process's lease.
    await client`update mails set next_attempt_at = now() where status = 'pending'`;
    await start(runtime);
    const left = () => client`select id from mails where status <> 'sent'`.then((rows) => rows.length);
    await expect.poll(left).toBe(0);
    const to = mailServer.received.map((mail) => mail.to[0] ?? "");
    expect(to.length).toBe(7);
    expect(new Set(to).size).toBe(6);
  });
});
