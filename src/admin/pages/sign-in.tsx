import { useState } from "react";
import { Link } from "react-router";
import type { SignedIn } from "../answers.ts";
import { call } from "../api.ts";
import { Check, Field, Form } from "../design/field.tsx";
import { Entrance } from "../design/entrance.tsx";
import { Failed, Note } from "../design/page.tsx";
import { useSession } from "../session.tsx";
import { useSubmit } from "../submit.ts";
import { texts } from "../texts.ts";

const t = texts.signIn;

export function SignInPage() {
  const session = useSession();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [remember, setRemember] = useState(false);
  const signIn = useSubmit(async () =>
    session.signIn(await call<SignedIn>("POST", "/users/authenticate", { body: { username, password } }), remember),
  );
  return (
    <Entrance title={t.title} lead={location.host}>
      {session.ended ? (
        <Note tone="warn" role="alert">
          {texts.errors.sessionEnded}
        </Note>
      ) : null}
      <Form onSubmit={signIn.submit}>
        <Field label={t.username} value={username} onChange={setUsername} autoComplete="username" autoFocus required />
        <Field
          label={t.password}
          type="password"
          value={password}
          onChange={setPassword}
          autoComplete="current-password"
          required
        />
        <Check label={t.remember} checked={remember} onChange={setRemember} />
        <Failed error={signIn.error} />
        <button type="submit" className="b primary full" disabled={signIn.isPending}>
          {signIn.isPending ? t.submitting : t.submit}
        </button>
      </Form>
      <p className="small soft">
        {t.noAccount}{" "}
        <Link className="link" to="/register">
          {t.register}
        </Link>
      </p>
      <details className="small soft">
        <summary className="link">{t.hintTitle}</summary>
        <p>{t.hint}</p>
      </details>
    </Entrance>
  );
}
