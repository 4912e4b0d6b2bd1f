export const signIn = {
  title: "Sign in",
  username: "Username",
  password: "Password",
  remember: "Keep me signed in on this computer",
  submit: "Sign in",
  submitting: "Signing in…",
  noAccount: "No account?",
  register: "Create one",
  hintTitle: "First time on this server?",
  hint: "The first start prints the password of the user admin once. Look for it in the output of npm start.",
} as const;

export const register = {
  title: "Create an account",
  lead: "You get an organization of your own and an API key for it.",
  passwordHint: "At least 5 characters, without spaces",
  usernameHint: "3 to 30 characters",
  submit: "Create account",
  submitting: "Creating the account…",
  closed: "Registration is closed on this server. Ask a platform admin for an account.",
  haveAccount: "Have an account?",
} as const;

export const account = {
  title: "Account",
  signedInAs: "Signed in as",
  since: "Signed in here since",
  signOutElsewhere: "Sign out everywhere else",
  role: "Platform role",
  key: "Your personal key",
  keyHint: "It can do everything you can. For programs, create an API key instead.",
  newKey: "Replace key",
  newKeyWarning: "The old key stops working at once, everywhere you use it. This console continues with the new one.",
  keyReplaced: "Key replaced",
  oldPassword: "Current password",
  password: "New password",
  strength: {
    weak: "Weak: use more characters",
    fair: "Fair: a longer one is better",
    strong: "Strong",
  },
  changePassword: "Change password",
  passwordChanged: "Password changed",
} as const;
