import type { KeyScope, OrganizationRole } from "../../core/access/caller.ts";
import { PERMISSION_RULES } from "../../core/access/permissions.ts";
import { texts } from "../texts.ts";
import { Table } from "../design/table.tsx";

const t = texts.members;
const ROLES: readonly OrganizationRole[] = ["OWNER", "ADMIN", "MANAGER", "EVALUATOR"];
const SCOPES: readonly KeyScope[] = ["ALL", "MANAGEMENT", "EVALUATION"];
const INSIDE = "/organizations/*";

/** The server's permission table: once for members' roles, once for key scopes. */
export function RoleMatrix() {
  const forMembers = PERMISSION_RULES.flatMap(({ pattern, methods, members }) =>
    members === undefined ? [] : [{ name: nameOf(methods, pattern.slice(INSIDE.length)), allows: members }],
  );
  const forKeys = PERMISSION_RULES.flatMap(({ pattern, methods, access }) =>
    access === "public" || access.keys === "user-only" || access.keys.length === 0
      ? []
      : [{ name: nameOf(methods, pattern), allows: access.keys }],
  );
  return (
    <div className="columns wide">
      <Matrix label={t.rolesLabel} columns={ROLES} rows={forMembers} />
      <Matrix label={t.scopesLabel} columns={SCOPES} rows={forKeys} />
    </div>
  );
}

const nameOf = (methods: readonly string[], pattern: string): string =>
  `${methods.filter((method) => method !== "PATCH").join(", ")} ${pattern.replaceAll("/**", "/…").replaceAll("*", "…")}`;

function Matrix<Column extends string>(props: {
  label: string;
  columns: readonly Column[];
  rows: readonly { name: string; allows: readonly Column[] }[];
}) {
  return (
    <Table label={props.label} head={[t.action, ...props.columns]} isMatrix>
      {props.rows.map(({ name, allows }) => (
        <tr key={name}>
          <th scope="row">
            <code>{name}</code>
          </th>
          {props.columns.map((column) => {
            const isAllowed = allows.includes(column);
            return (
              <td key={column} className={isAllowed ? "good" : "faint"}>
                <span role="img" aria-label={isAllowed ? texts.common.yes : texts.common.no}>
                  {isAllowed ? "✓" : "–"}
                </span>
              </td>
            );
          })}
        </tr>
      ))}
    </Table>
  );
}
