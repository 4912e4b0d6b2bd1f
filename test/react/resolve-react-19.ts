import { Module } from "node:module";

/*
 * The alias of the vitest project reaches imports in our sources only: react-dom 19 itself requires "react", which would be 18.
 */

interface Resolver {
  _resolveFilename(request: string, ...rest: unknown[]): string;
}

const resolver = Module as unknown as Resolver;
const resolve = resolver._resolveFilename;
resolver._resolveFilename = function (request, ...rest) {
  return resolve.call(
    this,
    request.replace(/^(react|react-dom)(?=$|\/)/, (name) => `${name}19`),
    ...rest,
  );
};
