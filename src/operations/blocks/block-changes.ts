import { sum } from "../../core/exact.ts";
import {
  type BlockDraw,
  changeBlocks,
  type CountingBlock,
  endedEvent,
  grantedEvent,
  insertBlocks,
  touchContract,
} from "../../db/queries/blocks.ts";
import type { ContractSnapshot, EndUserName } from "../../db/queries/contract-snapshots.ts";
import type { Addressed } from "../../db/queries/outbox.ts";
import type { Database } from "../../db/postgres/connect.ts";

/** Blocks of one locked contract, with their changes, draws and events until `write`. */
export class BlockChanges {
  readonly #contract: ContractSnapshot;
  readonly #name: EndUserName;
  readonly #changed = new Set<string>();
  /** Ids of blocks that resets carried over, which have no row yet. */
  readonly #added = new Set<string>();
  readonly #draws: BlockDraw[] = [];
  readonly #events: Addressed[] = [];
  #blocks: CountingBlock[];
  /** Blocks that have ended, with the values to write. */
  readonly #settled: CountingBlock[] = [];

  constructor(contract: ContractSnapshot, name: EndUserName, blocks: CountingBlock[]) {
    this.#contract = contract;
    this.#name = name;
    this.#blocks = blocks;
  }

  /** Blocks that count, with their changes. */
  get blocks(): readonly CountingBlock[] {
    return this.#blocks;
  }

  /** Adds a block that has no row yet. */
  add(block: CountingBlock): void {
    this.#blocks.push(block);
    this.#added.add(block.id);
    this.#events.push(grantedEvent(this.#name.organizationId, block, this.#named(block)));
  }

  /** Names the end user and the service of a block, for its events. */
  #named({ serviceId }: CountingBlock): { userId: string; serviceName: string } {
    const serviceName = this.#contract.services.find((service) => service.serviceId === serviceId)?.key ?? "";
    return { userId: this.#name.userId, serviceName };
  }

  /** Records what is drawn for good. */
  fix(block: CountingBlock, amount: number, kind: Exclude<BlockDraw["kind"], "kept">, at: Date): void {
    this.#draw(block, amount, kind, at);
    if (amount !== 0) this.change(block.id, { used: sum(this.#find(block.id).used, amount) });
  }

  /** Changes what a block keeps. */
  keep(block: CountingBlock, kept: number, at: Date): void {
    this.#draw(block, sum(kept, -block.kept), "kept", at);
    if (kept !== block.kept) this.change(block.id, { kept });
  }

  #draw({ id, contractId, organizationId }: CountingBlock, amount: number, kind: BlockDraw["kind"], at: Date): void {
    if (amount !== 0) this.#draws.push({ blockId: id, contractId, organizationId, kind, at, amount });
  }

  #find(id: string): CountingBlock {
    const found = this.#blocks.find((block) => block.id === id);
    if (found === undefined) throw new Error(`block ${id} does not count`);
    return found;
  }

  /** Ends a block, with its event. */
  close(id: string, end: Pick<CountingBlock, "state" | "endedAt" | "settledAt"> & Partial<CountingBlock>): void {
    const block = this.change(id, end);
    this.#events.push(endedEvent(this.#name.organizationId, block, this.#named(block)));
  }

  change(id: string, change: Partial<CountingBlock>): CountingBlock {
    const before = this.#find(id);
    const after = { ...before, ...change };
    this.#blocks[this.#blocks.indexOf(before)] = after;
    this.#changed.add(id);
    return after;
  }

  /** Takes blocks that have settled out of the list. */
  settle(): void {
    this.#settled.push(...this.#blocks.filter(({ settledAt }) => settledAt !== null));
    this.#blocks = this.#blocks.filter(({ settledAt }) => settledAt === null);
  }

  /** Writes all changes. Returns undefined without any, else the events to record. */
  async write(db: Database, now: Date): Promise<Addressed[] | undefined> {
    if (this.#changed.size + this.#added.size === 0) return undefined;
    const all = [...this.#settled, ...this.#blocks];
    await insertBlocks(
      db,
      all.filter(({ id }) => this.#added.has(id)).map(({ drawn: _drawn, ...row }) => row),
    );
    const rows = all.filter(({ id }) => this.#changed.has(id) && !this.#added.has(id));
    await changeBlocks(db, this.#contract.contractId, { rows, draws: this.#draws });
    await touchContract(db, this.#contract.contractId, now);
    return this.#events;
  }
}
