import type { ReactNode } from "react";
import type { KeyScope, OrganizationRole } from "../../core/access/caller.ts";
import {
  type Actor,
  denyAddKey,
  denyAddMember,
  denyDelete,
  denyKeys,
  denyRemoveKey,
  denyUpdate,
} from "../../core/access/membership.ts";
import { PERMISSION_RULES } from "../../core/access/permissions.ts";
import { may, scopeMay } from "../access.ts";
import type { Method } from "../api.ts";
import { texts } from "../texts.ts";
import { Table } from "../design/table.tsx";

const t = texts.members;
const ROLES = ["OWNER", "ADMIN", "MANAGER", "EVALUATOR"] as const satisfies readonly OrganizationRole[];
const SCOPES = ["ALL", "MANAGEMENT", "EVALUATION"] as const satisfies readonly KeyScope[];
const INSIDE = "/organizations/*";

/** A task decided by a call inside an organization, or by a membership rule. */
type Task = readonly [Method, string] | ((actor: Actor) => string | undefined);

/** Tasks of members. Each asks the rules that the server asks. */
const TASKS: Record<keyof typeof t.tasks, Task> = {
  read: ["GET", "/contracts"],
  publishVersion: ["POST", "/services"],
  archiveVersion: ["PUT", "/services/a/pricings/1"],
  deleteVersion: ["DELETE", "/services/a/pricings/1"],
  guardrails: ["PUT", "/gate"],
  publishOffer: ["PUT", "/public-offer"],
  changeContract: ["PUT", "/contracts/a"],
  deleteContract: ["DELETE", "/contracts/a"],
  setTerms: ["PUT", "/contracts/a/overrides/a/features/a"],
  removeTerms: ["DELETE", "/contracts/a/overrides/a/features/a"],
  webhooks: ["POST", "/webhooks"],
  createKey: (actor) => denyKeys(actor) ?? denyAddKey(actor, "MANAGEMENT"),
  createFullKey: (actor) => denyKeys(actor) ?? denyAddKey(actor, "ALL"),
  deleteKey: (actor) => denyKeys(actor) ?? denyRemoveKey(actor, "MANAGEMENT"),
  addMember: (actor) => denyAddMember(actor, "EVALUATOR"),
  addAdmin: (actor) => denyAddMember(actor, "ADMIN"),
  audit: ["GET", "/audit-log"],
  rename: (actor) => denyUpdate(actor, { owner: false, default: false }),
  transfer: (actor) => denyUpdate(actor, { owner: true, default: false }),
  deleteOrganization: (actor) => denyDelete(actor, ""),
};

/** Tasks of programs with a key. */
const KEY_TASKS: Record<keyof typeof t.keyTasks, readonly [Method, string]> = {
  evaluate: ["POST", "/features/a"],
  readServices: ["GET", "/services"],
  contracts: ["POST", "/contracts"],
  usage: ["PUT", "/contracts/a/usageLevels"],
  upload: ["POST", "/services"],
  webhooks: ["POST", "/webhooks"],
  deleteContracts: ["DELETE", "/contracts/a"],
  deleteServices: ["DELETE", "/services/a"],
  audit: ["GET", "/audit-log"],
};

const allows = (role: OrganizationRole, task: Task): boolean =>
  typeof task === "function"
    ? task(role) === undefined
    : may({ username: "", role: "USER", inOrganization: role }, task[0], `/organizations/a${task[1]}`);

const namesOf = <Name extends string>(tasks: Record<Name, unknown>): Name[] => Object.keys(tasks) as Name[];

/** The tasks that each role and each key scope permit. The calls of the same table are one click away. */
export function RoleMatrix() {
  return (
    <>
      <div className="columns wide">
        <Matrix
          label={t.rolesLabel}
          head={[t.task, ...ROLES.map((role) => t.roles[role])]}
          rows={namesOf(TASKS).map((name) => ({
            name: t.tasks[name],
            cells: ROLES.map((role) => allows(role, TASKS[name])),
          }))}
        />
        <Matrix
          label={t.scopesLabel}
          head={[t.keyTask, ...SCOPES]}
          rows={namesOf(KEY_TASKS).map((name) => ({
            name: t.keyTasks[name],
            cells: SCOPES.map((scope) => scopeMay(scope, ...KEY_TASKS[name])),
          }))}
        />
      </div>
      <details>
        <summary>{t.asCalls}</summary>
        <Calls />
      </details>
    </>
  );
}

/** The permission table of the server: once for members' roles, once for key scopes. */
function Calls() {
  const forMembers = PERMISSION_RULES.flatMap(({ pattern, methods, members }) =>
    members === undefined ? [] : [{ name: callOf(methods, pattern.slice(INSIDE.length)), allowed: members }],
  );
  const forKeys = PERMISSION_RULES.flatMap(({ pattern, methods, access }) =>
    access === "public" || access.keys === "user-only" || access.keys.length === 0
      ? []
      : [{ name: callOf(methods, pattern), allowed: access.keys }],
  );
  return (
    <div className="columns wide">
      <Matrix
        label={t.roleCalls}
        head={[t.call, ...ROLES]}
        rows={forMembers.map(({ name, allowed }) => ({
          name: <code>{name}</code>,
          cells: ROLES.map((role) => allowed.includes(role)),
        }))}
      />
      <Matrix
        label={t.scopeCalls}
        head={[t.call, ...SCOPES]}
        rows={forKeys.map(({ name, allowed }) => ({
          name: <code>{name}</code>,
          cells: SCOPES.map((scope) => allowed.includes(scope)),
        }))}
      />
    </div>
  );
}

const callOf = (methods: readonly string[], pattern: string): string =>
  `${methods.filter((method) => method !== "PATCH").join(", ")} ${pattern.replaceAll("/**", "/…").replaceAll("*", "…")}`;

function Matrix(props: {
  label: string;
  head: readonly string[];
  rows: readonly { name: ReactNode; cells: readonly boolean[] }[];
}) {
  return (
    <Table label={props.label} head={props.head} isMatrix>
      {props.rows.map(({ name, cells }, index) => (
        <tr key={index}>
          <th scope="row">{name}</th>
          {cells.map((isAllowed, column) => (
            <td key={column} className={isAllowed ? "good" : "faint"}>
              <span role="img" aria-label={isAllowed ? texts.common.yes : texts.common.no}>
                {isAllowed ? "✓" : "–"}
              </span>
            </td>
          ))}
        </tr>
      ))}
    </Table>
  );
}
