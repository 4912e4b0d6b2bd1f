import { z } from "zod";
import { isDotSegment } from "../core/pricing/names.ts";
import { isStorable } from "../core/storable.ts";
import { objectError } from "./change-bodies.ts";
import { amounts, EXAMPLE, moment, NO_CONTRACT, NO_SINGLE_CONTRACT, SEVERAL_CONTRACTS } from "./common.ts";
import type { Operation } from "./operation.ts";
import { requiredNotNull } from "./subscription.ts";

/** Most members of one contract. */
const MAX_MEMBERS = 10_000;
const MAX_ID = 128;

/** Most characters of a name. */
const MAX_NAME = 255;
const NAME = `The name field must be a string of up to ${MAX_NAME} characters`;
const LIST = `The data field must be a list of at most ${MAX_MEMBERS} members`;

/** Characters are code points. */
const isText = (text: string, most: number) => isStorable(text) && [...text].length <= most;

/** Returns true for an id that a member can have. */
export const isMemberId = (text: string): boolean => text !== "" && !isDotSegment(text) && isText(text, MAX_ID);

/** Sentence about a member id in a path. */
export const MEMBER_ID = `The memberId must be 1 to ${MAX_ID} characters long, and not . or ..`;

interface Issue {
  readonly code?: string;
  readonly keys?: readonly string[];
  readonly path?: readonly PropertyKey[] | undefined;
}

/** Sentence that names the field by its whole path, such as `data.0.id`. */
const fieldError = (rule: string) => ({
  error: ({ code, keys, path = [] }: Issue) =>
    code === "unrecognized_keys"
      ? `Unknown field: ${[...path, keys?.[0]].join(".")}`
      : `The ${path.join(".")} field must be ${rule}`,
});
const ID = fieldError(`a string of 1 to ${MAX_ID} characters, and not . or ..`);
const LISTED_NAME = fieldError(`a string of up to ${MAX_NAME} characters`);

const isName = (text: string) => isText(text, MAX_NAME);

export const memberChange = z
  .strictObject(
    {
      name: z
        .string(NAME)
        .refine(isName, NAME)
        .nullish()
        .transform((name) => name ?? null)
        .describe("Default: none"),
    },
    objectError("The body must be an object"),
  )
  .meta({ id: "ContractMemberChange" });

export const memberList = z
  .strictObject(
    {
      data: z
        .array(
          z.strictObject(
            {
              id: z.string(ID).refine(isMemberId, ID),
              name: z
                .string(LISTED_NAME)
                .refine(isName, LISTED_NAME)
                .nullish()
                .transform((name) => name ?? null)
                .describe("Default: none"),
            },
            fieldError("an object"),
          ),
          requiredNotNull("The data field is required", LIST),
        )
        .max(MAX_MEMBERS, LIST)
        .refine((data) => new Set(data.map(({ id }) => id)).size === data.length, {
          error: "The data field must not name a member twice",
          when: ({ issues }) => issues.length === 0,
        }),
    },
    objectError("The body must be an object"),
  )
  .meta({ id: "ContractMemberList" });

const shown = {
  id: z.string().describe("Your own id of the person"),
  name: z.string().nullable(),
};
export const member = z.strictObject({ ...shown, createdAt: moment }).meta({ id: "ContractMember" });

export const memberUse = z
  .strictObject({
    ...shown,
    used: amounts.describe("What the member used in the running periods, by limit id; amounts above 0 only"),
    createdAt: moment,
  })
  .meta({ id: "ContractMemberUse" });

export const memberPage = z
  .strictObject({
    data: z.array(memberUse),
    next: z.string().nullable().describe("The `before` of the next page, or null"),
    total: z.int().describe("Number of all matching members"),
  })
  .meta({ id: "ContractMemberPage" });

export const memberCounts = z
  .strictObject({ added: z.int(), removed: z.int(), changed: z.int().describe("Members with another name") })
  .meta({ id: "ContractMemberCounts" });

const MEMBER = { id: "grace", name: "Grace Hopper", createdAt: EXAMPLE.createdAt };
const USE = { id: MEMBER.id, name: MEMBER.name, used: { "tasker-maxTasks": 12 }, createdAt: MEMBER.createdAt };
const PATH = "/contracts/{userId}/members";
const NO_MEMBER = "Member grace of ada not found";
const NO_SEAT = "CONFLICT: No seat is free: 5 of 5 are taken";

/** Members of a contract: the people who use it. Source: contract members. */
export const memberOperations: readonly Operation[] = [
  {
    id: "listContractMembers",
    group: "Contracts",
    method: "GET",
    path: PATH,
    summary: "List a contract's members",
    description: "Lists the people who use the contract, newest first, with what each used in the running periods.",
    query: z.object({
      q: z.string().optional().describe("Text in id or name, in any case"),
      limit: z.int().min(1).max(100).default(20).describe("Rows per page"),
      before: z.string().optional().describe("The `next` of the page before"),
    }),
    answers: { 200: { schema: memberPage, example: { data: [USE], next: null, total: 1 } } },
    errors: { 400: "INVALID DATA: before must be the next of another page", ...NO_SINGLE_CONTRACT },
  },
  {
    id: "replaceContractMembers",
    group: "Contracts",
    method: "PUT",
    path: PATH,
    summary: "Replace a contract's members",
    description:
      "Makes the list the members of the contract, all or nothing. Where the pricing counts seats, every added member takes one.",
    body: { schema: memberList, example: { data: [{ id: "grace", name: "Grace Hopper" }, { id: "alan" }] } },
    answers: { 200: { schema: memberCounts, example: { added: 1, removed: 0, changed: 1 } } },
    errors: { 404: NO_CONTRACT, 409: NO_SEAT, 422: LIST },
  },
  {
    id: "showContractMember",
    group: "Contracts",
    method: "GET",
    path: `${PATH}/{memberId}`,
    summary: "Show a member of a contract",
    description: "Returns a member with what it used in the running periods.",
    answers: { 200: { schema: memberUse, example: USE } },
    errors: { 404: NO_MEMBER, 409: SEVERAL_CONTRACTS, 422: MEMBER_ID },
  },
  {
    id: "putContractMember",
    group: "Contracts",
    method: "PUT",
    path: `${PATH}/{memberId}`,
    summary: "Add a member to a contract",
    description:
      "Adds a member, which takes a seat where the pricing counts seats, or gives a member another name. A repeated call answers 200 and changes nothing.",
    body: { schema: memberChange, example: { name: "Grace Hopper" }, required: false },
    answers: { 200: { schema: member, example: MEMBER }, 201: { schema: member, example: MEMBER } },
    errors: { 404: NO_CONTRACT, 409: NO_SEAT, 422: NAME },
  },
  {
    id: "removeContractMember",
    group: "Contracts",
    method: "DELETE",
    path: `${PATH}/{memberId}`,
    summary: "Remove a member of a contract",
    description: "Removes the member, and frees its seat. What it used stays counted.",
    answers: { 204: null },
    errors: { 404: NO_MEMBER, 409: SEVERAL_CONTRACTS, 422: MEMBER_ID },
  },
];
