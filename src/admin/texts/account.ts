export const signIn = {
  title: "Sign in",
  lead: "Pricing, access and usage of your SaaS.",
  username: "User name",
  password: "Password",
  remember: "Keep me signed in on this computer",
  submit: "Sign in",
  submitting: "Signing in …",
  noAccount: "No account yet?",
  register: "Register",
  hintTitle: "First time here?",
  hint: "The first start printed the password of the user admin. It is shown once; look at the output of npm start.",
} as const;

export const register = {
  title: "Register",
  lead: "You get an organization of your own, and a key for it.",
  passwordHint: "At least 5 characters, no blanks.",
  usernameHint: "3 to 30 characters.",
  submit: "Create account",
  submitting: "Creating the account …",
  closed: "Registration is closed on this server. Ask a platform ADMIN for an account.",
  haveAccount: "You have an account?",
} as const;

export const account = {
  title: "Account",
  signedInAs: "Signed in as",
  role: "Platform role",
  key: "Your user key",
  keyHint:
    "It is what the console itself uses. It may do what you may do; give programs a key of an organization instead.",
  newKey: "Replace key",
  newKeyWarning: "The old key stops working at once, everywhere you use it. The console goes on with the new one.",
  keyReplaced: "The key is replaced.",
  password: "New password",
  changePassword: "Change password",
  passwordChanged: "The password is changed.",
} as const;
