import { createdWith, dateOf, isRecord, isTooLong, itemsOf, shown, type SpaceDocument, textOf } from "./documents.ts";
import type { Findings, Subject } from "./report.ts";

/** Derives an id that SPACE lacks: the same for the same owner and position in every run. */
export type DeriveId = (ownerAndPosition: string) => string;

export interface PlannedUser {
  id: string;
  username: string;
  /** A bcrypt hash; null when the user needs a new password. */
  password: string | null;
  apiKey: string | null;
  role: "ADMIN" | "USER";
  createdAt: Date;
  updatedAt: Date;
}

export interface PlannedOrganization {
  id: string;
  name: string;
  /** Null when neither the owner nor any ADMIN is in the dump: the ADMIN of the target gets it. */
  ownerId: string | null;
  isDefault: boolean;
  createdAt: Date;
  keys: { id: string; key: string; scope: "ALL" | "MANAGEMENT" | "EVALUATION" }[];
  members: { userId: string; role: "ADMIN" | "MANAGER" | "EVALUATOR" }[];
}

const SCOPES = ["ALL", "MANAGEMENT", "EVALUATION"] as const;
const MEMBER_ROLES = ["ADMIN", "MANAGER", "EVALUATOR"] as const;
/** Hashes with a higher cost would block a core for seconds at each sign-in. */
const MAX_BCRYPT_COST = 14;
const MAX_KEY_LENGTH = 256;

const isUsable = (hash: unknown): hash is string =>
  typeof hash === "string" &&
  /^\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}$/.test(hash) &&
  Number(hash.slice(4, 6)) <= MAX_BCRYPT_COST;

const isKey = (prefix: "usr" | "org", key: unknown): key is string =>
  typeof key === "string" && key.startsWith(`${prefix}_`) && key.length <= MAX_KEY_LENGTH && /^\w+$/.test(key);

/** Shows enough of a key to find it, and not enough to use it. */
const masked = (key: unknown): string => (typeof key === "string" ? `${key.slice(0, 8)}…` : typeof key);

/** Plans users and organizations. Keys are unique over both. Source: contract files-and-migration §5. */
export class AccountPlanner {
  private readonly findings: Findings;
  private readonly deriveId: DeriveId;
  private readonly keys = new Set<string>();
  private readonly users = new Map<string, PlannedUser>();
  private readonly ids = new Set<string>();
  private readonly defaults = new Set<string>();
  readonly organizations = new Map<string, PlannedOrganization>();

  constructor(findings: Findings, deriveId: DeriveId) {
    this.findings = findings;
    this.deriveId = deriveId;
  }

  /** True once a user with the role ADMIN is planned. */
  get hasAdmin(): boolean {
    return this.firstAdmin() !== undefined;
  }

  planUser(document: SpaceDocument): PlannedUser | undefined {
    const { findings } = this;
    const username = textOf(document["username"]);
    const id = findings.open("users", "user", document, username ?? "");
    if (id === undefined) return undefined;
    const subject: Subject = { kind: "user", id, name: username ?? "" };
    if (username === undefined || isTooLong(username) || this.ids.has(id)) {
      findings.leave("document-invalid", subject, this.ids.has(id) ? "Its id is taken" : "It has no usable username");
      return undefined;
    }
    if (this.users.has(username)) {
      findings.leave("duplicate-name", subject, "Another user has this name");
      return undefined;
    }
    const password = isUsable(document["password"]) ? document["password"] : null;
    if (password === null) {
      findings.change("password-unusable", subject, "Not a bcrypt hash, or its cost is above 14: needs a new password");
    }
    for (const field of ["createdAt", "updatedAt"]) {
      const given = document[field];
      if (given === undefined || given === null || dateOf(given) !== undefined) continue;
      findings.leave("document-invalid", subject, `Its ${field} is ${shown(given)}, and no date`);
    }
    const createdAt = dateOf(document["createdAt"]) ?? createdWith(id);
    const user: PlannedUser = {
      id,
      username,
      password,
      apiKey: this.takeKey("usr", document["apiKey"], { kind: "key", id, name: username }) ?? null,
      role: this.roleOf(document["role"], subject),
      createdAt,
      updatedAt: dateOf(document["updatedAt"]) ?? createdAt,
    };
    this.ids.add(id);
    this.users.set(username, user);
    findings.carried.users += 1;
    return user;
  }

  private roleOf(role: unknown, subject: Subject): "ADMIN" | "USER" {
    if (role === "ADMIN" || role === "USER") return role;
    this.findings.change("role-unknown", subject, `${shown(role)} becomes USER`);
    return "USER";
  }

  private takeKey(prefix: "usr" | "org", key: unknown, subject: Subject): string | undefined {
    if (key === undefined || key === null) return undefined;
    if (!isKey(prefix, key)) {
      this.findings.leave("key-invalid", subject, `${masked(key)} does not begin with ${prefix}_, or is no key`);
      return undefined;
    }
    if (this.keys.has(key)) {
      this.findings.leave("key-duplicate", subject, `${masked(key)} is the key of somebody else, too`);
      return undefined;
    }
    this.keys.add(key);
    this.findings.carried.keys += 1;
    return key;
  }

  planOrganization(document: SpaceDocument): PlannedOrganization | undefined {
    const { findings } = this;
    const name = textOf(document["name"]);
    const id = findings.open("organizations", "organization", document, name ?? "");
    if (id === undefined) return undefined;
    const subject: Subject = { kind: "organization", id, name: name ?? "" };
    if (name === undefined || this.organizations.has(id)) {
      findings.leave("document-invalid", subject, name === undefined ? "It has no name" : "Its id is taken");
      return undefined;
    }
    const owner = this.ownerOf(document["owner"], subject);
    const organization: PlannedOrganization = {
      id,
      name,
      ownerId: owner?.id ?? null,
      isDefault: this.isDefault(document["default"], owner, subject),
      createdAt: createdWith(id),
      keys: this.keysOf(document["apiKeys"], subject),
      members: this.membersOf(document["members"], owner, subject),
    };
    this.organizations.set(id, organization);
    findings.carried.organizations += 1;
    return organization;
  }

  private firstAdmin(): PlannedUser | undefined {
    return [...this.users.values()].find(({ role }) => role === "ADMIN");
  }

  private ownerOf(owner: unknown, subject: Subject): PlannedUser | undefined {
    const known = typeof owner === "string" ? this.users.get(owner) : undefined;
    if (known !== undefined) return known;
    const heir = this.firstAdmin();
    this.findings.change(
      "owner-missing",
      subject,
      `There is no user ${shown(owner)}: given to ${heir?.username ?? "the first ADMIN"}`,
    );
    return heir;
  }

  private isDefault(value: unknown, owner: PlannedUser | undefined, subject: Subject): boolean {
    if (value !== undefined && value !== null && typeof value !== "boolean") {
      this.findings.leave("document-invalid", subject, `Its default is ${shown(value)}, and no boolean`);
    }
    if (value !== true) return false;
    const key = owner?.id ?? "";
    // The ADMIN of the target, who has a default organization, gets organizations without an owner.
    if (owner !== undefined && !this.defaults.has(key)) {
      this.defaults.add(key);
      return true;
    }
    this.findings.change("second-default", subject, "Its owner has another default organization");
    return false;
  }

  private keysOf(keys: unknown, { id, name }: Subject): PlannedOrganization["keys"] {
    return itemsOf(keys).flatMap((each, position) => {
      const subject: Subject = { kind: "key", id, name: `key ${position + 1} of ${name}` };
      const { key, scope: given } = isRecord(each) ? each : { key: null, scope: null };
      const scope = SCOPES.find((known) => known === given);
      if (scope === undefined || typeof key !== "string") {
        this.findings.leave("key-invalid", subject, `${masked(key)} has the scope ${shown(given)}`);
        return [];
      }
      const taken = this.takeKey("org", key, subject);
      return taken === undefined ? [] : [{ id: this.deriveId(`${id} key ${position}`), key: taken, scope }];
    });
  }

  private membersOf(members: unknown, owner: PlannedUser | undefined, { id, name }: Subject) {
    const seen = new Set(owner === undefined ? [] : [owner.id]);
    return itemsOf(members).flatMap((each) => {
      const { username, role: given } = isRecord(each) ? each : { username: null, role: null };
      const subject: Subject = { kind: "member", id, name: `${shown(username)} in ${name}` };
      const user = typeof username === "string" ? this.users.get(username) : undefined;
      if (user === undefined) {
        this.findings.leave("member-unknown", subject, "There is no such user");
        return [];
      }
      if (seen.has(user.id)) {
        const isOwner = user.id === owner?.id;
        this.findings.leave("member-duplicate", subject, isOwner ? "It is the owner" : "It is a member already");
        return [];
      }
      seen.add(user.id);
      const role = MEMBER_ROLES.find((known) => known === given);
      if (role === undefined) this.findings.change("role-unknown", subject, `${shown(given)} becomes EVALUATOR`);
      this.findings.carried.members += 1;
      return [{ userId: user.id, role: role ?? ("EVALUATOR" as const) }];
    });
  }
}
