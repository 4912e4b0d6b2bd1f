import type { AddressInfo } from "node:net";
import { SMTPServer } from "smtp-server";

/** A mail as it arrived. */
export interface ReceivedMail {
  to: string[];
  /** Header and body, with encoded lines decoded. */
  text: string;
  raw: string;
}

export interface MailServer {
  url: string;
  received: ReceivedMail[];
  /** Recipients that are refused with 550. */
  refused: Set<string>;
  /** False answers every mail with 451. */
  accepts: boolean;
  /** Called once a mail has arrived, before it is acknowledged. */
  beforeAnswer: () => Promise<void>;
  close(): Promise<void>;
}

/** Opens a real SMTP server on this port. Default: a free one. */
export async function openMailServer(port = 0): Promise<MailServer> {
  const opened: MailServer = {
    url: "",
    received: [],
    refused: new Set(),
    accepts: true,
    beforeAnswer: async () => {},
    close: async () => {},
  };
  const server = new SMTPServer({
    authOptional: true,
    closeTimeout: 200,
    disabledCommands: ["STARTTLS"],
    onRcptTo: ({ address }, _session, done) => {
      if (!opened.refused.has(address)) return done();
      return done(Object.assign(new Error("no such mailbox"), { responseCode: 550 }));
    },
    onData: (stream, session, done) => {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.once("end", () => {
        if (!opened.accepts) return done(Object.assign(new Error("try later"), { responseCode: 451 }));
        const raw = Buffer.concat(chunks).toString("utf8");
        const to = session.envelope.rcptTo.map(({ address }) => address);
        opened.received.push({ to, raw, text: decoded(raw) });
        void opened.beforeAnswer().then(() => done());
      });
    },
  });
  // A client that is killed resets its connection.
  server.on("error", () => {});
  await new Promise<void>((listening) => server.listen(port, "127.0.0.1", listening));
  opened.url = `smtp://127.0.0.1:${(server.server.address() as AddressInfo).port}`;
  opened.close = () => new Promise((closed) => server.close(() => closed()));
  return opened;
}

/** Decodes quoted-printable and base64 bodies, and encoded words of headers. */
function decoded(raw: string): string {
  const [head = "", ...rest] = raw.split("\r\n\r\n");
  const body = rest.join("\r\n\r\n");
  const bytes = (text: string) =>
    text.replaceAll(/(?:=[0-9A-F]{2})+/g, (hex) => Buffer.from(hex.replaceAll("=", ""), "hex").toString("utf8"));
  const words = head
    .replaceAll(/\?=\s+=\?/g, "?==?")
    .replaceAll(/=\?UTF-8\?Q\?([^?]*)\?=/gi, (_, text: string) => bytes(text.replaceAll("_", " ")))
    .replaceAll(/=\?UTF-8\?B\?([^?]*)\?=/gi, (_, text: string) => Buffer.from(text, "base64").toString("utf8"));
  const text = /content-transfer-encoding: base64/i.test(head)
    ? Buffer.from(body, "base64").toString("utf8")
    : bytes(body.replaceAll("=\r\n", ""));
  return `${words}\n\n${text}`;
}
