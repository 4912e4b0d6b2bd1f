import type { ErrorKind } from "./entry.ts";

export const unprocessable: ErrorKind = {
  title: "Unprocessable",
  status: 422,
  meaning: "A field of the body, or an id in the path, has the wrong shape. Nothing was changed.",
  remedy: "Correct the field that the sentence names; the API reference shows every body with an example.",
  groups: [
    {
      remedy: "Add the field.",
      sentences: [
        "The {field} field is required",
        "The {field} field is required to {action}",
        "{field} is required",
        "{field} is required when {condition}",
        "A hold needs amounts for the limits of the feature",
      ],
    },
    {
      remedy: "Send a value of this type, length or range.",
      sentences: [
        "The {field} field must be {rule}",
        "The {field} field must have {rule}",
        "The {field} field must not {rule}",
        "The {field} field cannot be empty",
        "The {field} field is not valid",
        "The {field} field needs either until or days",
        "{field} takes renewalDays or renewalPeriod, not both",
        "The {field} must be {rule}",
        "The name of a budget must have {rule}",
        "{field} must be {rule}",
        "{field} must have {rule}",
        "{field} must not {rule}",
        "{field} cannot be empty",
        "{field} cannot contain whitespace",
        "All values must be {rule}",
        "All values in {field} must be {rule}",
        "Each of {field} must be {rule}",
        "Each value in {field} must be {rule}",
        "The body must be {rule}",
        "Body must be {rule}",
        "The username contains characters that are not allowed",
        "The input must be an object with the structure: Record<string, Record<string, number>>",
        "The body is not valid",
      ],
    },
    {
      remedy:
        "Remove the field or limit, or correct its spelling. Unknown names are refused so that typing errors show.",
      sentences: ["Unknown field: {field}", "Unknown limit in {field}: {limit}", "Unknown limit: {limit}"],
    },
    {
      remedy: "Use a unit that the pricing gives a rate for this limit, or send the amount in the limit's own unit.",
      sentences: ["{limit} has no rates", "Unknown unit of {limit}: {unit}"],
    },
    {
      remedy: "Add or remove members instead: only their list moves a limit that counts them.",
      sentences: ["{limit} counts members"],
    },
    {
      remedy: "Send at most 1,000 items per call, each an object as the API reference shows.",
      sentences: ["A batch has at most {most} items", "Item {index}: {problem}"],
    },
    {
      remedy: "Use a new Idempotency-Key for each request; only a retry of the same request repeats it.",
      sentences: ["This Idempotency-Key was already used for a different request"],
    },
    {
      remedy: "Correct the rule at this place of the gate.",
      sentences: ["{place}: {problem}"],
    },
  ],
};
