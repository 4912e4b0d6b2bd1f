const INSTANT = /^(\d{4}-\d{2}-\d{2})(?:(T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)(?:Z|([+-]\d{2})(?::?(\d{2}))?)?)?$/;

/**
 * Parses an ISO 8601 date, or date and time; UTC without an offset. Undefined for other text, and for years outside 1 to
 * 9999, which cannot be stored.
 */
export function instantIn(text: string): Date | undefined {
  const [, day = "", time = "T00:00", hours = "+00", minutes = "00"] = INSTANT.exec(text) ?? [];
  // Date.parse would move February 30 into March.
  const isDay = !Number.isNaN(Date.parse(day)) && new Date(day).toISOString().startsWith(day);
  const moment = new Date(`${day}${time}${hours}:${minutes}`);
  const year = moment.getUTCFullYear();
  return isDay && year >= 1 && year <= 9999 ? moment : undefined;
}
