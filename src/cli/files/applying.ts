import { ServiceRequestError } from "../../client/service-request-error.ts";
import { CliFailure, type Io } from "../command.ts";
import { type Folder, type FolderService, type FolderVersion, versionKey } from "./folder.ts";
import { isSameName } from "./manifest.ts";
import { describePartStep, partsOf } from "./parts.ts";
import { PartSteps } from "./part-steps.ts";
import type { PartStep, PlanOptions } from "./plan.ts";
import { surroundingsOf, targetsOf } from "./planning.ts";
import { HeldChange, type Server, servicePath, versionPath } from "./server.ts";
import { changesOf, describeStep, type ServiceStep } from "./steps.ts";

/** Rounds per service: others may change it meanwhile. */
const MAX_ROUNDS = 5;
/** Attempts of one step. */
const MAX_BUSY = 4;
const BUSY_WAIT_MS = 1000;

/** A step that was carried out. */
export type DoneStep = ({ readonly service: string } & ServiceStep) | PartStep;

/** Choices of an application. */
export interface ApplyOptions extends Pick<PlanOptions, "only" | "prune"> {
  readonly overrideReason: string | undefined;
  readonly secretsOut: string | undefined;
  /** Called after each step. */
  readonly onDone: (step: DoneStep, words: string) => void;
  /** Called for each change that waits for a second person. Further steps of its service follow once it is approved. */
  readonly onHeld: (change: HeldChange) => void;
}

/**
 * Carries out what a folder needs, service by service, one call per step. Each step is compared with the server first,
 * so that a repeated or concurrent application does it once.
 * @throws CliFailure with the server's sentence for a step that fails.
 */
export async function applyFolder(folder: Folder, server: Server, io: Io, options: ApplyOptions): Promise<void> {
  for (const service of folder.services) await new Application(service, folder, server, io, options).run();
  const parts = new PartSteps(folder.manifest, server, io, options);
  const stepsLeft = async () =>
    (await partsOf(folder.manifest, server, options)).flatMap(({ steps }): readonly PartStep[] => steps);
  for (const step of await stepsLeft()) {
    const isLeft = async () => (await stepsLeft()).some((each) => JSON.stringify(each) === JSON.stringify(step));
    const busy = new BusyServer();
    for (let isDone = false; !isDone;) {
      try {
        if (await parts.carryOut(step)) options.onDone(step, describePartStep(step));
        isDone = true;
      } catch (error) {
        if (error instanceof HeldChange) {
          options.onHeld(error);
          break;
        }
        await busy.waitOr(error);
        // The step may have been done nevertheless.
        isDone = !(await isLeft());
      }
    }
  }
}

/** Waits for a server that answers 503, as it does during a restart or while a contract is locked. */
class BusyServer {
  #attempts = 0;

  /** Waits, longer each time. @throws the error if it is another one, or if the server stays busy. */
  async waitOr(error: unknown): Promise<void> {
    this.#attempts += 1;
    const isBusy = error instanceof ServiceRequestError && error.status === 503;
    if (!isBusy || this.#attempts === MAX_BUSY) throw error;
    await new Promise((resolve) => setTimeout(resolve, BUSY_WAIT_MS * this.#attempts));
  }
}

/** The application of one service. */
class Application {
  readonly #service: FolderService;
  readonly #folder: Folder;
  readonly #server: Server;
  readonly #io: Io;
  readonly #options: ApplyOptions;

  constructor(service: FolderService, folder: Folder, server: Server, io: Io, options: ApplyOptions) {
    this.#service = service;
    this.#folder = folder;
    this.#server = server;
    this.#io = io;
    this.#options = options;
  }

  /** Does the first step that is left until none is. Lists the steps again each time, because others may apply the folder, too. */
  async run(): Promise<void> {
    const { name } = this.#service.entry;
    let failed: { step: string; error: ServiceRequestError } | undefined;
    let attempted: { step: string; busy: BusyServer } | undefined;
    const most = MAX_ROUNDS * (4 * this.#service.versions.length + 10);
    for (let round = 0; round < most; round += 1) {
      const around = await surroundingsOf(this.#folder, this.#server, this.#io, this.#options);
      const { steps, refusals, current } = await changesOf(this.#service, around);
      if (refusals.length > 0) throw new CliFailure(refusals.join("\n"));
      const [step] = steps;
      if (step === undefined) return;
      // A step that is still left after it failed has not reached its goal.
      if (failed?.step === JSON.stringify(step)) throw failed.error;
      if (attempted?.step !== JSON.stringify(step)) attempted = { step: JSON.stringify(step), busy: new BusyServer() };
      try {
        await this.#send(step, current?.name ?? name);
        this.#options.onDone({ service: name, ...step }, `${name}: ${describeStep(step)}`);
      } catch (error) {
        if (error instanceof HeldChange) return this.#options.onHeld(error);
        const isConflict = error instanceof ServiceRequestError && (error.status === 400 || error.status === 409);
        if (isConflict) failed = { step: JSON.stringify(step), error };
        // The next round compares with the server again, since the step may have been done nevertheless.
        else await attempted.busy.waitOr(error);
      }
    }
    throw new CliFailure(`${name} keeps changing on the server. Try again`);
  }

  async #send(step: ServiceStep, current: string): Promise<void> {
    switch (step.do) {
      case "create":
      case "upload": {
        const version = this.#versionOf(step.pricingVersion);
        // The server compares the name in the path with the one in the file, letter by letter.
        const path = step.do === "create" ? "/services" : `${servicePath(version.pricing.saasName)}/pricings`;
        await this.#server.send("POST", path, { body: formOf(version) });
        return;
      }
      case "rename":
        await this.#server.send("PUT", servicePath(step.from), { body: { name: step.to } });
        return;
      case "expectations": {
        const { expectations } = this.#versionOf(step.pricingVersion);
        const path = versionPath(current, step.pricingVersion, "/expectations");
        await this.#server.send("PUT", path, { body: { expectations: expectations?.text ?? null } });
        return;
      }
      case "activate":
        await this.#changeAvailability(current, step.pricingVersion, "active", {});
        return;
      case "archive": {
        const { moves } = this.#service.entry;
        const targets = await targetsOf(this.#server, current, step.pricingVersion, { moves, drafts: [] });
        await this.#changeAvailability(current, step.pricingVersion, "archived", targets);
        return;
      }
      default:
        await this.#publish(step.do === "publish", current);
    }
  }

  #versionOf(version: string): FolderVersion {
    const found = this.#service.versions.find(({ pricing }) => versionKey(pricing.version) === versionKey(version));
    if (found === undefined) throw new Error(`the folder has no version ${version}`);
    return found;
  }

  async #changeAvailability(name: string, version: string, availability: string, body: object): Promise<void> {
    const query = { availability, overrideReason: this.#options.overrideReason };
    await this.#server.send("PUT", versionPath(name, version), { query, body });
  }

  async #publish(isPublic: boolean, name: string): Promise<void> {
    const others = (await this.#server.published()).filter((each) => !isSameName(each, name));
    await this.#server.send("PUT", "/public-offer", { body: { services: isPublic ? [...others, name] : others } });
  }
}

/** Sends both texts as files, so that their line ends stay as they are. */
function formOf({ source, expectations }: FolderVersion): FormData {
  const form = new FormData();
  form.append("pricing", new Blob([source.text]), "pricing.yml");
  if (expectations !== undefined) form.append("expectations", new Blob([expectations.text]), "expectations.yml");
  return form;
}
