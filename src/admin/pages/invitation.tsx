import { useEffect, useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import type { AcceptedInvitation, InvitationOffer } from "../answers.ts";
import { call, path } from "../api.ts";
import { Field, Form } from "../design/field.tsx";
import { Entrance } from "../design/entrance.tsx";
import { Failed } from "../design/page.tsx";
import { ProviderButton } from "../parts/provider-button.tsx";
import { SignInPage } from "./sign-in.tsx";
import { useSession } from "../session.tsx";
import { useSubmit } from "../submit.ts";
import { texts } from "../texts.ts";

const t = texts.invitations;

/** Accepts the invitation of a link, as the signed-in user or with a new account. */
export function InvitationPage() {
  const { token = "" } = useParams();
  const { user, methods } = useSession();
  const [offer, setOffer] = useState<InvitationOffer>();
  const [error, setError] = useState<Error>();
  const [signsIn, setSignsIn] = useState(false);
  useEffect(() => {
    call<InvitationOffer>("GET", path`/invitations/${token}`).then(setOffer, setError);
  }, [token]);
  if (error !== undefined) {
    return (
      <Entrance title={t.invalidTitle} lead={t.invalid}>
        <Failed error={error} />
        <p className="small soft">
          <Link className="link" to="/">
            {texts.recovery.toSignIn}
          </Link>
        </p>
      </Entrance>
    );
  }
  if (offer === undefined) return null;
  // The address stays, so that the page shows the invitation once somebody has signed in.
  if (signsIn && user === undefined) return <SignInPage />;
  const lead = t.acceptLead(offer.invitedBy, texts.members.roles[offer.role]);
  return (
    <Entrance title={t.acceptTitle(offer.organization)} lead={lead}>
      {user === undefined ? (
        <>
          {(methods?.password ?? "true") === "true" ? <NewAccount token={token} /> : <ProviderButton />}
          <p className="small soft">
            {t.haveAccount}{" "}
            <button type="button" className="link" onClick={() => setSignsIn(true)}>
              {t.signInFirst}
            </button>
          </p>
        </>
      ) : (
        <Accept token={token} username={user.username} />
      )}
    </Entrance>
  );
}

const accept = (token: string, body: object) =>
  call<AcceptedInvitation>("POST", path`/invitations/${token}/accept`, { body });

function Accept({ token, username }: { token: string; username: string }) {
  const go = useNavigate();
  const join = useSubmit(async () => {
    const { organization } = await accept(token, {});
    void go(`/o/${organization.id}`, { replace: true });
  });
  return (
    <Form onSubmit={join.submit}>
      <p>{t.acceptAs(username)}</p>
      <Failed error={join.error} />
      <button type="submit" className="b primary full" disabled={join.isPending}>
        {t.accept}
      </button>
    </Form>
  );
}

function NewAccount({ token }: { token: string }) {
  const session = useSession();
  const go = useNavigate();
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const join = useSubmit(async () => {
    const { organization } = await accept(token, { username, password });
    await session.signIn(username, password);
    void go(`/o/${organization.id}`, { replace: true });
  });
  return (
    <Form onSubmit={join.submit}>
      <Field
        label={texts.signIn.username}
        hint={texts.register.usernameHint}
        value={username}
        onChange={setUsername}
        autoComplete="username"
        required
      />
      <Field
        label={texts.signIn.password}
        hint={texts.register.passwordHint}
        type="password"
        value={password}
        onChange={setPassword}
        autoComplete="new-password"
        required
      />
      <Failed error={join.error} />
      <button type="submit" className="b primary full" disabled={join.isPending}>
        {t.newAccount}
      </button>
    </Form>
  );
}
