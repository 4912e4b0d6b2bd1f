import { useState } from "react";
import { Link } from "react-router";
import { Field, Form } from "../design/field.tsx";
import { Entrance } from "../design/entrance.tsx";
import { Failed, Note } from "../design/page.tsx";
import { ProviderButton } from "../parts/provider-button.tsx";
import { useSession } from "../session.tsx";
import { useSubmit } from "../submit.ts";
import { texts } from "../texts.ts";

const t = texts.signIn;

/** Returns the sentence of the code with which a sign-in at the provider ended; undefined without one. */
function providerFailure(search: string): string | undefined {
  const code = new URLSearchParams(search).get("error");
  if (code === null) return undefined;
  return Object.hasOwn(t.failures, code) ? t.failures[code as keyof typeof t.failures] : t.failures.token;
}

export function SignInPage() {
  const session = useSession();
  const { methods } = session;
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const signIn = useSubmit(() => session.signIn(username, password));
  const failure = providerFailure(location.search);
  return (
    <Entrance title={t.title} lead={location.host}>
      <Failed
        error={methods === undefined ? new Error(texts.errors.unreachable) : null}
        onRetry={() => location.reload()}
      />
      {failure === undefined ? null : (
        <Note tone="warn" role="alert">
          {failure}
        </Note>
      )}
      <ProviderButton />
      {methods?.password === "false" ? null : (
        <Form onSubmit={signIn.submit}>
          {methods?.password === "admins" ? <p className="small soft">{t.forAdmins}</p> : null}
          <Field
            label={t.username}
            value={username}
            onChange={setUsername}
            autoComplete="username"
            autoFocus
            required
          />
          <Field
            label={t.password}
            type="password"
            value={password}
            onChange={setPassword}
            autoComplete="current-password"
            required
          />
          <Failed error={signIn.error} />
          <button type="submit" className="b primary full" disabled={signIn.isPending}>
            {signIn.isPending ? t.submitting : t.submit}
          </button>
        </Form>
      )}
      {methods?.password === "false" ? null : (
        <p className="small soft">
          <Link className="link" to="/recovery">
            {texts.recovery.forgot}
          </Link>
        </p>
      )}
      {methods?.signUp === false ? null : (
        <p className="small soft">
          {t.noAccount}{" "}
          <Link className="link" to="/register">
            {t.register}
          </Link>
        </p>
      )}
      <details className="small soft">
        <summary className="link">{t.hintTitle}</summary>
        <p>{t.hint}</p>
      </details>
    </Entrance>
  );
}
