import { useState } from "react";
import { useNavigate } from "react-router";
import type { Service } from "../answers.ts";
import { call, path } from "../api.ts";
import { serviceKey } from "../services.ts";
import { useChange } from "../queries.ts";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";
import { Field, Form } from "../design/field.tsx";
import { GuardedButton } from "../design/guarded-button.tsx";
import { Failed, Section } from "../design/page.tsx";

const t = texts.services;

/** Renames or disables a service, for users with permission. */
export function ServiceChanges({ service }: { service: Service }) {
  const here = useHere();
  const go = useNavigate();
  const [name, setName] = useState(service.name);
  const place = path`/services/${service.name}`;
  const rename = useChange({
    change: () => call<Service>("PUT", here.base + place, { body: { name } }),
    touches: () => [`${here.base}/services`, `${here.base}/contracts`],
    gone: here.base + place,
    done: (changed) => t.renamed(changed.name),
    after: (changed) => void go(`../${path`services/${changed.name}`}`, { replace: true }),
  });
  if (!here.may("PUT", place)) return null;
  return (
    <Section title={t.manage} lead={t.renameLead(serviceKey(service.name), serviceKey(name.trim() || service.name))}>
      <Form className="fields" onSubmit={() => rename.mutate(undefined)}>
        <Field label={t.name} value={name} onChange={setName} required />
        <GuardedButton
          reason={name.trim() === service.name ? texts.common.newNameFirst : undefined}
          isBusy={rename.isPending}
        >
          {t.rename}
        </GuardedButton>
      </Form>
      <Failed error={rename.error} />
    </Section>
  );
}
