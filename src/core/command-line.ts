/** Set by the build of the npm package `faregate-server`. Undefined in a clone. */
declare const IS_PACKAGED: true | undefined;

/** True in the npm package `faregate-server`, which has no sources, no development tools and no npm scripts. */
export const isPackaged = typeof IS_PACKAGED !== "undefined";

/** Returns the line with which an operator runs a command of the server: an npm script in a clone, npx elsewhere. */
export function commandLine(command: string): string {
  if (isPackaged) return `\`npx faregate-server${command === "start" ? "" : ` ${command.replace(":", "-")}`}\``;
  const [name = "", ...operands] = command.split(" ");
  const script = name === "start" ? "npm start" : `npm run ${name}`;
  return `\`${[script, ...(operands.length === 0 ? [] : ["--"]), ...operands].join(" ")}\``;
}
