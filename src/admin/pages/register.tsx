import { useState } from "react";
import { Link, useNavigate } from "react-router";
import { call, Refused } from "../api.ts";
import { Field, Form } from "../design/field.tsx";
import { Entrance } from "../design/entrance.tsx";
import { Failed } from "../design/page.tsx";
import { useSession } from "../session.tsx";
import { useSubmit } from "../submit.ts";
import { texts } from "../texts.ts";

const t = texts.register;

export function RegisterPage() {
  const session = useSession();
  const go = useNavigate();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const register = useSubmit(async () => {
    await call("POST", "/users", { body: { username, password } });
    await session.signIn(username, password);
    void go("/", { replace: true });
  });
  const isClosed = register.error instanceof Refused && register.error.status === 401;
  return (
    <Entrance title={t.title} lead={t.lead}>
      <Form onSubmit={register.submit}>
        <Field
          label={texts.signIn.username}
          hint={t.usernameHint}
          value={username}
          onChange={setUsername}
          autoComplete="username"
          required
        />
        <Field
          label={texts.signIn.password}
          hint={t.passwordHint}
          type="password"
          value={password}
          onChange={setPassword}
          autoComplete="new-password"
          required
        />
        <Failed error={isClosed ? new Error(t.closed) : register.error} />
        <button type="submit" className="b primary full" disabled={register.isPending}>
          {register.isPending ? t.submitting : t.submit}
        </button>
      </Form>
      <p className="small soft">
        {t.haveAccount}{" "}
        <Link className="link" to="/sign-in">
          {texts.signIn.submit}
        </Link>
      </p>
    </Entrance>
  );
}
