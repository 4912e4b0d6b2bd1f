/*
 * Texts of pricings that were begun and not saved yet, kept in this browser: closing a tab loses nothing.
 */

const placeOf = (organizationId: string, service: string): string =>
  `faregate-draft:${organizationId}:${service.toLowerCase()}`;

/** The text that was begun for a service, or for a new one (`""`). */
export function readDraft(organizationId: string, service: string): string {
  return localStorage.getItem(placeOf(organizationId, service)) ?? "";
}

/** Remembers a text; an empty one is forgotten. */
export function keepDraft(organizationId: string, service: string, text: string): void {
  const place = placeOf(organizationId, service);
  if (text.trim() === "") localStorage.removeItem(place);
  else localStorage.setItem(place, text);
}

/** The drafts of one service: at most one a browser. */
export function draftsOf(organizationId: string, service: string): string[] {
  return readDraft(organizationId, service) === "" ? [] : [service];
}
