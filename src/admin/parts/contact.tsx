import { useState } from "react";
import { useActing } from "../acting.ts";
import type { Contract } from "../answers.ts";
import { call, path } from "../api.ts";
import { useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Field, Form } from "../design/field.tsx";
import { GuardedButton } from "../design/guarded-button.tsx";
import { Failed, Section } from "../design/page.tsx";

const t = texts.contract;
const FIELDS = ["username", "firstName", "lastName", "email", "phone"] as const;

/** Returns a person's full name, otherwise the user name. */
export function nameOf({ userContact }: Pick<Contract, "userContact">): string {
  const { firstName, lastName, username } = userContact;
  return [firstName, lastName].filter(Boolean).join(" ") || username;
}

/** Edits an end user's contact data. The server refuses to empty the username and the email. */
export function Contact({ contract }: { contract: Contract }) {
  const { base } = useHere();
  const { userContact } = contract;
  const to = path`/contracts/${userContact.userId}/userContact`;
  const acting = useActing("PUT", to);
  const [fields, setFields] = useState<Partial<Record<(typeof FIELDS)[number], string>>>({});
  const change = useChange({
    change: () => call("PUT", to, { key: acting?.key, query: acting?.query ?? {}, body: fields }),
    touches: () => [`${base}/contracts`],
    done: () => t.contactSaved,
    after: () => setFields({}),
  });
  if (acting === undefined) return null;
  return (
    <Section title={t.contact}>
      <Form onSubmit={() => change.mutate(undefined)}>
        <div className="fields">
          {FIELDS.map((name) => (
            <Field
              key={name}
              label={t[name]}
              type={name === "email" ? "email" : "text"}
              value={fields[name] ?? userContact[name] ?? ""}
              onChange={(text) => setFields({ ...fields, [name]: text })}
            />
          ))}
        </div>
        <Failed error={change.error} />
        <div className="actions">
          <GuardedButton
            reason={Object.keys(fields).length === 0 ? texts.common.nothingChanged : undefined}
            isBusy={change.isPending}
          >
            {texts.common.save}
          </GuardedButton>
        </div>
      </Form>
    </Section>
  );
}
