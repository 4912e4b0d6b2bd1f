import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Dialog } from "../design/dialog.tsx";
import { Field, Form } from "../design/field.tsx";
import { Failed } from "../design/page.tsx";
import { ProviderButton } from "./provider-button.tsx";
import { useSession, useUser } from "../session.tsx";
import { useSubmit } from "../submit.ts";
import { texts } from "../texts.ts";

/** Asks to sign in again above the page, which keeps everything that was typed. */
export function SignInAgain() {
  const { methods, signIn, signOut } = useSession();
  const { username } = useUser();
  const [password, setPassword] = useState("");
  const queries = useQueryClient();
  const submit = useSubmit(async () => {
    await signIn(username, password);
    void queries.invalidateQueries();
  });
  return (
    <Dialog
      title={texts.errors.signInAgain}
      onClose={() => void signOut()}
      closeLabel={texts.shell.signOut}
      ignoresEscape
    >
      <div className="stack">
        <p>{texts.errors.sessionEnded}</p>
        {methods?.password === "false" ? null : (
          <Form onSubmit={submit.submit}>
            <p>
              {texts.signIn.username}: <b>{username}</b>
            </p>
            <Field
              label={texts.signIn.password}
              type="password"
              value={password}
              onChange={setPassword}
              autoComplete="current-password"
              autoFocus
              required
            />
            <Failed error={submit.error} />
            <div className="actions end">
              <button type="submit" className="b primary" disabled={submit.isPending}>
                {submit.isPending ? texts.signIn.submitting : texts.signIn.submit}
              </button>
            </div>
          </Form>
        )}
        <ProviderButton inNewTab />
      </div>
    </Dialog>
  );
}
