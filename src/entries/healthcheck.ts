/* Exit code 0 when the server of this container answers; the argument names the variable of its port. */
const variable = process.argv[2] ?? "PORT";
const port = process.env[variable] ?? (variable === "PORT" ? "3000" : "5403");
const path = `${process.env["BASE_URL_PATH"] ?? ""}/live`;
const isUp = await fetch(`http://127.0.0.1:${port}${path}`).then(
  (answer) => answer.ok,
  () => false,
);
process.exit(isUp ? 0 : 1);
