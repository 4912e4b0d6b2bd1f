/** Result of one check: fine, could be better, or broken. */
export interface Finding {
  state: "ok" | "warn" | "FAIL";
  what: string;
  sentence: string;
}
