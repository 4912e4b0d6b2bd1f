import { useState } from "react";
import { Link, useParams } from "react-router";
import { call, path, Refused } from "../api.ts";
import { Field, Form } from "../design/field.tsx";
import { Entrance } from "../design/entrance.tsx";
import { Failed, Note } from "../design/page.tsx";
import { useSession } from "../session.tsx";
import { useSubmit } from "../submit.ts";
import { texts } from "../texts.ts";

const t = texts.recovery;

const ToSignIn = () => (
  <p className="small soft">
    <Link className="link" to="/sign-in">
      {t.toSignIn}
    </Link>
  </p>
);

/** Asks for a link that sets a new password. */
export function RecoveryPage() {
  const [username, setUsername] = useState("");
  const [isSent, setIsSent] = useState(false);
  const request = useSubmit(async () => {
    const headers = { "accept-language": document.documentElement.lang };
    await call("POST", "/recovery", { body: { username }, headers });
    setIsSent(true);
  });
  return (
    <Entrance title={t.title} lead={t.lead}>
      {isSent ? (
        <Note role="status">{t.requested}</Note>
      ) : (
        <Form onSubmit={request.submit}>
          <Field
            label={texts.signIn.username}
            value={username}
            onChange={setUsername}
            autoComplete="username"
            autoFocus
            required
          />
          <Failed error={request.error} />
          <button type="submit" className="b primary full" disabled={request.isPending}>
            {t.request}
          </button>
        </Form>
      )}
      <ToSignIn />
    </Entrance>
  );
}

/** Sets a new password by the link of the address. */
export function NewPasswordPage() {
  const { token = "" } = useParams();
  const session = useSession();
  const [password, setPassword] = useState("");
  const [isDone, setIsDone] = useState(false);
  const set = useSubmit(async () => {
    await call("POST", path`/recovery/${token}`, { body: { password } });
    setIsDone(true);
    // The new password has ended every session of its user.
    if (session.user !== undefined) await session.signOut();
  });
  const isInvalid = set.error instanceof Refused && set.error.status === 404;
  return (
    <Entrance title={t.newTitle} lead={t.newLead}>
      {isDone ? (
        <Note role="status">{t.done}</Note>
      ) : (
        <Form onSubmit={set.submit}>
          <Field
            label={t.newPassword}
            hint={texts.register.passwordHint}
            type="password"
            value={password}
            onChange={setPassword}
            autoComplete="new-password"
            autoFocus
            required
          />
          <Failed error={isInvalid ? new Error(texts.invitations.invalid) : set.error} />
          <button type="submit" className="b primary full" disabled={set.isPending}>
            {t.set}
          </button>
        </Form>
      )}
      <ToSignIn />
    </Entrance>
  );
}
