import type { SendLetter } from "../../events/mails.ts";

/** Time-outs of a connection and of each of its answers. */
const TIMEOUT_MS = 20_000;

/** A mail server and the sender of its mails. */
interface MailServer {
  /** `smtp:` or `smtps:`, with credentials and the options of nodemailer as parameters. */
  url: string;
  from: string;
}

async function open({ url }: MailServer) {
  // Loaded only where mails are sent: the library takes 4 MB.
  const { createTransport } = await import("nodemailer");
  return createTransport({
    // Never sends a password without TLS, except where the URL says requireTLS=false.
    requireTLS: new URL(url).password !== "",
    url,
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** Creates the function that hands letters to a mail server, over one connection each. */
export function createSendLetter(server: MailServer): SendLetter {
  const domain = /@([^>\s]+)/.exec(server.from)?.[1] ?? "localhost";
  return async ({ id, to, subject, text }) => {
    const transport = await open(server);
    try {
      await transport.sendMail({
        from: server.from,
        to: { name: "", address: to },
        subject,
        text,
        messageId: `<${id}@${domain}>`,
        headers: { "Auto-Submitted": "auto-generated" },
      });
      return { delivered: true };
    } catch (error) {
      return { error: sentenceOf(error), isFinal: isFinal(error) };
    } finally {
      transport.close();
    }
  };
}

/**
 * Signs in to a mail server, and sends nothing.
 * @throws Error with the server's answer.
 */
export async function checkMailServer(server: MailServer): Promise<void> {
  const transport = await open(server);
  try {
    await transport.verify();
  } finally {
    transport.close();
  }
}

const sentenceOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A server's 5xx answer about this recipient or text. A wrong password is retried: the operator can correct it. */
function isFinal(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { responseCode, code } = error as { responseCode?: unknown; code?: unknown };
  return typeof responseCode === "number" && responseCode >= 500 && (code === "EENVELOPE" || code === "EMESSAGE");
}
