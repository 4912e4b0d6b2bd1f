import { isObject } from "../../client/pricing-token.ts";
import { ServiceRequestError } from "../../client/service-request-error.ts";
import { CliFailure, type Io } from "../command.ts";
import { sha256 } from "./folder.ts";
import type { Manifest, WebhookEntry } from "../../core/folder/manifest.ts";
import { pairWebhooks, webhookDifference } from "./parts.ts";
import type { PartStep } from "./plan.ts";
import type { Server, ServerWebhook } from "./server.ts";

/** Idempotency keys that are tried for one webhook. Each deletion within a day uses one up. */
const MAX_KEYS = 20;

/** Carries out the steps of gate, alerts and webhooks. */
export class PartSteps {
  readonly #manifest: Manifest;
  readonly #server: Server;
  readonly #io: Io;
  readonly #secretsOut: string | undefined;

  constructor(manifest: Manifest, server: Server, io: Io, options: { readonly secretsOut: string | undefined }) {
    this.#manifest = manifest;
    this.#server = server;
    this.#io = io;
    this.#secretsOut = options.secretsOut;
  }

  /**
   * Carries out a step. Returns false if its goal was reached meanwhile.
   * @throws ServiceRequestError
   */
  async carryOut(step: PartStep): Promise<boolean> {
    if (step.do === "gate") await this.#server.send("PUT", "/gate", { body: { rules: this.#manifest.gate ?? [] } });
    else if (step.do === "alerts") await this.#server.send("PUT", "/usage-alerts", { body: this.#manifest.alerts });
    else return this.#webhook(step);
    return true;
  }

  async #webhook(step: Exclude<PartStep, { do: "gate" | "alerts" }>): Promise<boolean> {
    const { pairs, rest } = pairWebhooks(this.#manifest.webhooks ?? [], await this.#server.webhooks());
    if (step.do === "webhook.delete") {
      const doomed = rest.find(({ url }) => url === step.url);
      return doomed === undefined ? false : this.#delete(doomed);
    }
    const { entry, found } = pairs.find((pair) => pair.entry.url === step.url) ?? {};
    if (entry === undefined) throw new Error(`the folder has no webhook ${step.url}`);
    if (step.do === "webhook.create") return found === undefined ? this.#create(entry) : false;
    const fields = found === undefined ? [] : webhookDifference(entry, found);
    if (found === undefined || fields.length === 0) return false;
    const body = Object.fromEntries(fields.map((field) => [field, entry[field]]));
    await this.#server.send("PUT", `/webhooks/${found.id}`, { body });
    return true;
  }

  async #delete({ id }: ServerWebhook): Promise<boolean> {
    try {
      await this.#server.send("DELETE", `/webhooks/${id}`);
      return true;
    } catch (error) {
      if (error instanceof ServiceRequestError && error.status === 404) return false;
      throw error;
    }
  }

  /**
   * Creates a webhook. Two applications at once send the same key, and make one. The file for its secret is written first,
   * because no later answer shows it.
   */
  async #create({ url, description, codes }: WebhookEntry): Promise<boolean> {
    if (this.#secretsOut !== undefined) await this.#addSecrets(this.#secretsOut, {});
    const stem = await sha256(JSON.stringify([this.#server.organization.id, url, codes]));
    for (let attempt = 1; attempt <= MAX_KEYS; attempt += 1) {
      const idempotencyKey = attempt === 1 ? stem : `${stem}-${attempt}`;
      const answer = await this.#server
        .send("POST", "/webhooks", { body: { url, description, codes }, idempotencyKey })
        .catch((error: unknown) => {
          // The webhook had another description then.
          if (error instanceof ServiceRequestError && error.message.startsWith("This Idempotency-Key"))
            return undefined;
          throw error;
        });
      if (answer !== undefined) await this.#keepSecret(url, answer.body);
      if (answer !== undefined && answer.headers.get("idempotent-replayed") === null) return true;
      // The first answer may be about a webhook that was deleted since.
      const { pairs } = pairWebhooks(this.#manifest.webhooks ?? [], await this.#server.webhooks());
      if (pairs.some((pair) => pair.entry.url === url && pair.found !== undefined)) return answer !== undefined;
    }
    throw new CliFailure(`The webhook ${url} was created and deleted too often today. Try again tomorrow`);
  }

  /** Adds the secret to the file at once. */
  async #keepSecret(url: string, answer: unknown): Promise<void> {
    const secret = isObject(answer) ? answer["secret"] : undefined;
    if (typeof secret !== "string") return;
    if (this.#secretsOut === undefined) {
      this.#io.err(`The secret of ${url} is not shown without --secrets-out: rotate it to see it.\n`);
      return;
    }
    await this.#addSecrets(this.#secretsOut, { [url]: secret });
  }

  /** Adds secrets to a file. Without any, makes sure that it can be written. @throws CliFailure */
  async #addSecrets(path: string, secrets: Readonly<Record<string, string>>): Promise<void> {
    const before = (await this.#io.readFile(path)) ?? "";
    const kept = before.trim() === "" ? {} : parsed(before);
    if (kept === undefined)
      throw new CliFailure(`${path} has no secrets of webhooks as JSON by address: name another file`);
    await this.#io.writeFile(path, `${JSON.stringify({ ...kept, ...secrets }, null, 2)}\n`, { isSecret: true });
  }
}

function parsed(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
