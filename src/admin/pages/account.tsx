import { useState } from "react";
import { call, path } from "../api.ts";
import { Confirm } from "../design/dialog.tsx";
import { Field, Form } from "../design/field.tsx";
import { Failed, Page, Section } from "../design/page.tsx";
import { formatMoment } from "../format.ts";
import { SecretText } from "../parts/secret.tsx";
import { useChange } from "../queries.ts";
import { useSession, useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.account;

export function AccountPage() {
  const user = useUser();
  const { replaceKey } = useSession();
  /** Title of the dialog that replaces the key. */
  const [replacing, setReplacing] = useState<string>();
  const [oldPassword, setOldPassword] = useState("");
  const [password, setPassword] = useState("");
  const replace = useChange({
    change: (_: undefined, key) => call<{ apiKey: string }>("PUT", path`/users/${user.username}/api-key`, { key }),
    touches: () => [],
    done: () => t.keyReplaced,
    after: ({ apiKey }) => {
      replaceKey(apiKey);
      setReplacing(undefined);
    },
  });
  const changePassword = useChange({
    change: async (_: undefined, key) => {
      // Check the current password: an open tab must not be enough to take the account over.
      await call("POST", "/users/authenticate", { body: { username: user.username, password: oldPassword } });
      return call("PUT", path`/users/${user.username}`, { key, body: { password } });
    },
    touches: () => [],
    done: () => t.passwordChanged,
    after: () => {
      setOldPassword("");
      setPassword("");
    },
  });
  return (
    <Page title={t.title}>
      <Section
        title={t.signedInAs}
        actions={
          <button type="button" className="b" onClick={() => setReplacing(t.signOutElsewhere)}>
            {t.signOutElsewhere}
          </button>
        }
      >
        <dl className="pairs">
          <dt>{texts.signIn.username}</dt>
          <dd>{user.username}</dd>
          <dt>{t.role}</dt>
          <dd>{texts.shell.platformRoles[user.role]}</dd>
          {user.since === undefined ? null : (
            <>
              <dt>{t.since}</dt>
              <dd>
                <time dateTime={user.since}>{formatMoment(user.since)}</time>
              </dd>
            </>
          )}
        </dl>
      </Section>
      <Section
        title={t.key}
        lead={t.keyHint}
        actions={
          <button type="button" className="b" onClick={() => setReplacing(t.newKey)}>
            {t.newKey}
          </button>
        }
      >
        <SecretText text={user.apiKey} label={t.key} />
      </Section>
      <Section title={t.changePassword}>
        <Form onSubmit={() => changePassword.mutate(undefined)}>
          <Field
            label={t.oldPassword}
            type="password"
            value={oldPassword}
            onChange={setOldPassword}
            autoComplete="current-password"
            required
          />
          <Field
            label={t.password}
            hint={password === "" ? texts.register.passwordHint : t.strength[strengthOf(password)]}
            type="password"
            value={password}
            onChange={setPassword}
            autoComplete="new-password"
            required
          />
          <div className="actions">
            <button type="submit" className="b" disabled={changePassword.isPending}>
              {t.changePassword}
            </button>
          </div>
        </Form>
        <Failed error={changePassword.error} />
      </Section>
      {replacing === undefined ? null : (
        <Confirm
          title={replacing}
          action={replacing}
          name={user.username}
          change={replace}
          onClose={() => setReplacing(undefined)}
        >
          <p>{t.newKeyWarning}</p>
        </Confirm>
      )}
    </Page>
  );
}

/** Estimates a password by its length and its kinds of characters. */
function strengthOf(password: string): "weak" | "fair" | "strong" {
  const kinds = [/[a-z]/, /[A-Z]/, /\d/, /[^a-zA-Z\d]/].filter((kind) => kind.test(password)).length;
  const score = password.length + 2 * kinds;
  return score < 14 ? "weak" : score < 20 ? "fair" : "strong";
}
