import { index, pgTable, primaryKey, text } from "drizzle-orm/pg-core";
import { createdAt } from "./columns.ts";

/**
 * Members of a contract: the people who use it. Their number stands in the contract's row, and is the balance of the limit that
 * counts seats. Source: contract members.
 */
export const contractMembers = pgTable(
  "contract_members",
  {
    contractId: text("contract_id").notNull(),
    organizationId: text("organization_id").notNull(),
    /** The SaaS's id of the person: opaque and case-sensitive. */
    memberId: text("member_id").notNull(),
    name: text("name"),
    /** 24 hex digits that ascend in the order of additions. Pages of the list are cut by it. */
    place: text("place").notNull(),
    createdAt: createdAt(),
  },
  (t) => [
    primaryKey({ name: "contract_members_pk", columns: [t.contractId, t.memberId, t.organizationId] }),
    // No foreign key on the contract, as for holds: triggers delete the rows with it, and move them along.
    index("contract_members_place_idx").on(t.contractId, t.place),
    // Finds the contracts of a member.
    index("contract_members_member_idx").on(t.organizationId, t.memberId),
  ],
);
