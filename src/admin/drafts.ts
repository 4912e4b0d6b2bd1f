/*
 * Unsaved pricing texts, kept in localStorage so that closing the tab loses nothing.
 */

const placeOf = (organizationId: string, service: string): string =>
  `faregate-draft:${organizationId}:${service.toLowerCase()}`;

/** Returns the draft for a service; `""` as the service stands for a new one. */
export function readDraft(organizationId: string, service: string): string {
  return localStorage.getItem(placeOf(organizationId, service)) ?? "";
}

/** Stores a draft; an empty text deletes it. */
export function keepDraft(organizationId: string, service: string, text: string): void {
  const place = placeOf(organizationId, service);
  if (text.trim() === "") localStorage.removeItem(place);
  else localStorage.setItem(place, text);
}

/** Lists the drafts of one service: at most one per browser. */
export function draftsOf(organizationId: string, service: string): string[] {
  return readDraft(organizationId, service) === "" ? [] : [service];
}
