import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { createSendLetter } from "../../src/entries/platform/smtp.ts";
import { type Mails, startMails } from "../../src/events/mails.ts";
import type { RetryTimes } from "../../src/events/retries.ts";
import { composeLetter } from "../../src/operations/accounts/letters.ts";
import { contextOf } from "../../src/operations/context.ts";
import { createTestApi, type TestApi } from "../support/api.ts";
import { type MailServer, openMailServer } from "../support/mail-server.ts";

let api: TestApi;
let server: MailServer;
const running: Mails[] = [];
let minute = 0;

beforeAll(async () => {
  api = await createTestApi({ settings: { sendsMail: true } });
});
afterAll(() => api.close());
beforeEach(async () => {
  server = await openMailServer();
  api.setNow(new Date(Date.UTC(2025, 5, 15, 10, (minute += 1))));
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((one) => one.stop()));
  await server.close();
  await api.database.connection.client`delete from mails`;
});

/** Sends as an event server does, with short delays. */
function work(times: Partial<RetryTimes> = {}, url = server.url): Mails {
  const mails = startMails({
    db: api.resources.db,
    compose: (mail) =>
      composeLetter(contextOf(api.resources, { kind: "anonymous" }), mail, "https://faregate.example/space"),
    send: createSendLetter({ url, from: "Faregate <no-reply@faregate.example>" }),
    onError: (error) => expect(error).toBeUndefined(),
    times: { pollMs: 20, retryFirstMs: 20, retryMaxMs: 50, attempts: 4, ...times },
  });
  running.push(mails);
  return mails;
}

const invite = async (email: string, headers: Record<string, string> = {}) => {
  const path = `/organizations/${api.callers.organizationId}/invitations`;
  const body = { role: "EVALUATOR", email };
  const answer = await api.call<{ id: string; url: string }>("POST", path, {
    key: api.callers.owner.key,
    body,
    headers,
  });
  expect(answer.status).toBe(201);
  return answer.body;
};
const rows = () =>
  api.database.connection.client<{ status: string; attempts: number; error: string | null }[]>`
    select status, attempts, error from mails order by id`.then((found) => found.map((row) => ({ ...row })));
const statuses = async () => (await rows()).map(({ status }) => status);
const linkIn = (text: string) => /https:\/\/\S+/.exec(text)?.[0] ?? "";

it("an invitation arrives at its address, with the link that the inviter was shown", async () => {
  const { url } = await invite("grace@example.com");
  const mails = work();
  await expect.poll(statuses).toEqual(["sent"]);
  const [mail] = server.received;
  expect(mail?.to).toEqual(["grace@example.com"]);
  expect(mail?.text).toMatch(/^From: Faregate <no-reply@faregate.example>/m);
  expect(mail?.text).toMatch(/^Subject: Invitation to Acme/m);
  expect(mail?.text).toContain('owner invites you to the organization "Acme" on Faregate.');
  expect(linkIn(mail?.text ?? "")).toBe(`https://faregate.example/space/console/invitations/${url.split("/").at(-1)}`);
  expect(mails.counts()).toMatchObject({ sent: 1, failed: 0 });
});

it("a mail whose attempts never end is given up, and does not hold up others", async () => {
  await invite("poison@example.com");
  await api.database.connection.client`update mails set attempts = 4`;
  await invite("grace@example.com");
  const mails = work({ attempts: 4 });
  await expect.poll(statuses).toEqual(["failed", "sent"]);
  expect((await rows())[0]?.error).toBe("no attempt has come to an end");
  expect(server.received.flatMap(({ to }) => to)).toEqual(["grace@example.com"]);
  expect(mails.counts()).toMatchObject({ sent: 1, failed: 1 });
});

it("a forgotten password's link arrives in the language of the request, and sets a new one", async () => {
  const { id, username } = await api.newUser("jürgen");
  await api.database.connection.client`update users set email = 'juergen@example.com' where id = ${id}`;
  await api.call("POST", "/recovery", { body: { username }, headers: { "accept-language": "de-AT,en;q=0.5" } });
  work();
  await expect.poll(statuses).toEqual(["sent"]);
  const { text = "" } = server.received[0] ?? {};
  expect(text).toMatch(/^Subject: Neues Passwort setzen/m);
  expect(text).toContain("Ihr Konto jürgen");
  const token = linkIn(text).split("/").at(-1) ?? "";
  const answer = await api.call("POST", `/recovery/${token}`, { body: { password: "sesame-open" } });
  expect(answer.status).toBe(204);
});

it("a refused recipient fails at once with the server's words, and others still get theirs", async () => {
  server.refused.add("gone@example.com");
  await invite("gone@example.com");
  await invite("here@example.com");
  const mails = work();
  await expect.poll(statuses).toEqual(["failed", "sent"]);
  expect((await rows())[0]).toMatchObject({ attempts: 1, error: expect.stringContaining("no such mailbox") });
  expect(mails.counts()).toMatchObject({ sent: 1, failed: 1 });
});

it("a server that defers gets the mail again, with the same link and Message-ID, and gives up after all attempts", async () => {
  server.accepts = false;
  await invite("later@example.com");
  work({ attempts: 100 });
  await expect.poll(async () => (await rows())[0]?.attempts ?? 0).toBeGreaterThan(2);
  expect(await statuses()).toEqual(["pending"]);
  server.accepts = true;
  await expect.poll(statuses).toEqual(["sent"]);
  expect(server.received).toHaveLength(1);
  server.accepts = false;
  await invite("never@example.com");
  await running.splice(0)[0]?.stop();
  work({ attempts: 3 });
  await expect.poll(statuses).toEqual(["sent", "failed"]);
  expect((await rows())[1]).toMatchObject({ attempts: 3, error: expect.stringContaining("try later") });
});

it("an outage of the mail server delays mails, and loses none", async () => {
  const port = Number(new URL(server.url).port);
  await server.close();
  await invite("patient@example.com");
  work({ attempts: 1000 });
  await expect.poll(async () => (await rows())[0]?.error ?? "").toContain("ECONNREFUSED");
  server = await openMailServer(port);
  await expect.poll(statuses).toEqual(["sent"]);
  expect(server.received).toHaveLength(1);
});

it("a mail whose link ended before it was due is not sent", async () => {
  const { id } = await invite("revoked@example.com");
  const path = `/organizations/${api.callers.organizationId}/invitations/${id}`;
  await api.call("DELETE", path, { key: api.callers.owner.key });
  work();
  await expect.poll(statuses).toEqual(["void"]);
  expect(server.received).toEqual([]);
});

it("several processes send each mail once", async () => {
  for (let i = 0; i < 20; i += 1) await invite(`user-${i}@example.com`);
  for (let i = 0; i < 3; i += 1) work();
  await expect.poll(async () => new Set(await statuses())).toEqual(new Set(["sent"]));
  expect(server.received.map(({ to }) => to[0]).toSorted()).toEqual(
    Array.from({ length: 20 }, (_, i) => `user-${i}@example.com`).toSorted(),
  );
});

it("a crash between the server's answer and the row repeats one mail, which mailboxes can tell by its Message-ID", async () => {
  for (let i = 0; i < 3; i += 1) await invite(`user-${i}@example.com`);
  const { client } = api.database.connection;
  // As after SIGKILL: the mail was handed over, and its lease ends without a result.
  const [first] = await client<{ id: string }[]>`select id from mails order by next_attempt_at limit 1`;
  work();
  await expect.poll(async () => new Set(await statuses())).toEqual(new Set(["sent"]));
  await client`update mails set status = 'pending', next_attempt_at = now() where id = ${first?.id ?? ""}`;
  await expect.poll(() => server.received.length).toBe(4);
  const ids = server.received.map(({ raw }) => /^Message-ID: (.*)$/im.exec(raw)?.[1]);
  expect(new Set(ids).size).toBe(3);
  const repeated = server.received.filter(({ raw }) => raw.includes(`<${first?.id}@faregate.example>`));
  expect(new Set(repeated.map(({ text }) => linkIn(text))).size).toBe(1);
});

it("names of strangers cannot forge headers or fill the mail", async () => {
  const owner = await api.newUser();
  const name = `Win money\r\nBcc: all@example.com\r\n\r\n${"Click here now! ".repeat(20)}`;
  const { id } = await api.newOrganization(owner, name);
  await api.call("POST", `/organizations/${id}/invitations`, {
    key: owner.key,
    body: { role: "EVALUATOR", email: "victim@example.com" },
  });
  work();
  await expect.poll(statuses).toEqual(["sent"]);
  const [mail] = server.received;
  expect(mail?.to).toEqual(["victim@example.com"]);
  expect(mail?.raw).not.toMatch(/^Bcc:/im);
  expect(mail?.text.match(/Click here now!/g)?.length ?? 0).toBeLessThan(8);
});

it("a password is never sent without TLS", async () => {
  await invite("secret@example.com");
  const url = new URL(server.url);
  url.username = "faregate";
  url.password = "open-sesame";
  work({ attempts: 1 }, url.href);
  await expect.poll(statuses).toEqual(["failed"]);
  expect(server.received).toEqual([]);
});
