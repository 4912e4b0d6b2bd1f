import { useState } from "react";
import { Link } from "react-router";
import type { User } from "../answers.ts";
import { addressOf, call, path } from "../api.ts";
import { Confirm } from "../design/dialog.tsx";
import { Field, Form } from "../design/field.tsx";
import { Failed, Note, Page, Section } from "../design/page.tsx";
import { SecretText } from "../parts/secret.tsx";
import { useChange } from "../queries.ts";
import { useSession, useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.account;

export function AccountPage() {
  const user = useUser();
  const { methods } = useSession();
  const failure = new URLSearchParams(location.search).get("error");
  return (
    <Page title={t.title}>
      {failure === null ? null : (
        <Note tone="warn" role="alert">
          {failure === "name" ? t.linkTaken : t.linkFailed}
        </Note>
      )}
      <Section
        title={t.signedInAs}
        actions={
          <>
            {methods?.provider == null ? null : (
              <a className="b" href={addressOf("/auth/oidc/link", { return: location.pathname })}>
                {t.link(methods.provider.name)}
              </a>
            )}
            <Link className="b" to="/sessions">
              {texts.sessions.title}
            </Link>
          </>
        }
      >
        <dl className="pairs">
          <dt>{texts.signIn.username}</dt>
          <dd>{user.username}</dd>
          <dt>{t.role}</dt>
          <dd>{texts.shell.platformRoles[user.role]}</dd>
        </dl>
        <Email />
      </Section>
      <PersonalKey />
      {methods?.password === "false" || user.via === "oidc" ? null : <ChangePassword />}
    </Page>
  );
}

/** The user's address; an empty field removes it. */
function Email() {
  const user = useUser();
  const { setEmail } = useSession();
  const [text, setText] = useState(user.email ?? "");
  const email = text.trim() === "" ? null : text.trim();
  const change = useChange({
    change: () => call("PUT", path`/users/${user.username}`, { body: { email } }),
    touches: () => ["/users"],
    done: () => t.emailSaved,
    after: () => setEmail(email),
  });
  return (
    <Form onSubmit={() => change.mutate(undefined)}>
      <div className="fields">
        <Field label={t.email} hint={t.emailHint} type="email" value={text} onChange={setText} autoComplete="email" />
        <button type="submit" className="b" disabled={change.isPending || email === (user.email ?? null)}>
          {texts.common.save}
        </button>
      </div>
      <Failed error={change.error} />
    </Form>
  );
}

/** The user's key, which the page fetches only when it is to be shown. */
function PersonalKey() {
  const user = useUser();
  const [key, setKey] = useState<string>();
  const [isReplacing, setIsReplacing] = useState(false);
  const show = useChange({
    change: () => call<User>("GET", path`/users/${user.username}`),
    touches: () => [],
    after: (shown) => setKey("apiKey" in shown ? shown.apiKey : undefined),
  });
  const replace = useChange({
    change: () => call<{ apiKey: string }>("PUT", path`/users/${user.username}/api-key`),
    touches: () => [],
    done: () => t.keyReplaced,
    after: ({ apiKey }) => {
      setKey(apiKey);
      setIsReplacing(false);
    },
  });
  return (
    <Section
      title={t.key}
      lead={t.keyHint}
      actions={
        <button type="button" className="b" onClick={() => setIsReplacing(true)}>
          {t.newKey}
        </button>
      }
    >
      {key === undefined ? (
        <button type="button" className="b" disabled={show.isPending} onClick={() => show.mutate(undefined)}>
          {t.showKey}
        </button>
      ) : (
        <SecretText text={key} label={t.key} isShown />
      )}
      <Failed error={show.error} />
      {isReplacing ? (
        <Confirm
          title={t.newKey}
          action={t.newKey}
          name={user.username}
          change={replace}
          onClose={() => setIsReplacing(false)}
        >
          <p>{t.newKeyWarning}</p>
        </Confirm>
      ) : null}
    </Section>
  );
}

function ChangePassword() {
  const user = useUser();
  const { signIn } = useSession();
  const [oldPassword, setOldPassword] = useState("");
  const [password, setPassword] = useState("");
  const change = useChange({
    change: async () => {
      // Check the current password: an open tab must not be enough to take the account over.
      await signIn(user.username, oldPassword);
      return call("PUT", path`/users/${user.username}`, { body: { password } });
    },
    touches: () => ["/sessions"],
    done: () => t.passwordChanged,
    after: () => {
      setOldPassword("");
      setPassword("");
    },
  });
  return (
    <Section title={t.changePassword} lead={t.changePasswordHint}>
      <Form onSubmit={() => change.mutate(undefined)}>
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
          <button type="submit" className="b" disabled={change.isPending}>
            {t.changePassword}
          </button>
        </div>
      </Form>
      <Failed error={change.error} />
    </Section>
  );
}

/** Estimates a password by its length and its kinds of characters. */
function strengthOf(password: string): "weak" | "fair" | "strong" {
  const kinds = [/[a-z]/, /[A-Z]/, /\d/, /[^a-zA-Z\d]/].filter((kind) => kind.test(password)).length;
  const score = password.length + 2 * kinds;
  return score < 14 ? "weak" : score < 20 ? "fair" : "strong";
}
