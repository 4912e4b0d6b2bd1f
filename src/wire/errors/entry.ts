/** Sentences that share a remedy. Braces stand for what varies, such as `{field}`. */
export interface ErrorSentences {
  readonly remedy: string;
  readonly sentences: readonly string[];
}

/** One kind of error: its status, and what a caller does about it. */
export interface ErrorKind {
  /** Heading of the catalogue; its anchor is made from it. */
  readonly title: string;
  readonly status: 400 | 401 | 403 | 404 | 409 | 410 | 413 | 422 | 429 | 500 | 503;
  readonly meaning: string;
  /** Applies to every sentence of the kind. */
  readonly remedy: string;
  readonly groups: readonly ErrorSentences[];
}
