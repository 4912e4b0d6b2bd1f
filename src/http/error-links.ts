import { anchorOf, CATALOGUE_PATH, ERRORS } from "../wire/errors/catalogue.ts";

/** Values of the header Link of errors, which lead to their part of the catalogue. */
export type ErrorLinks = Readonly<Record<keyof typeof ERRORS, string>>;

/** Creates the links, once per application. `apiPath` contains the sub-path. Source: RFC 8288. */
export function errorLinks(apiPath: string): ErrorLinks {
  const links = Object.entries(ERRORS).map(([code, kind]) => [
    code,
    `<${apiPath}${CATALOGUE_PATH}#${anchorOf(kind)}>; rel="help"`,
  ]);
  return Object.fromEntries(links) as ErrorLinks;
}
