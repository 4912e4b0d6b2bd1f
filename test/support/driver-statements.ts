import postgres from "postgres";

/** A statement of the driver. `string` is its text, and `parameters` are its values, once it has been sent. */
export interface Statement extends Promise<unknown> {
  /** Parts of the text between parameters. */
  strings: readonly string[];
  string?: string;
  parameters?: readonly unknown[];
}

/**
 * Prototype of the driver's statements, whose `handle` sends one. The driver does not export the class, and has no hook that leaves
 * its errors unchanged.
 */
export const statementPrototype = Object.getPrototypeOf(
  // Of a pool that is never used.
  postgres("postgres://nowhere").unsafe(""),
) as { handle(this: Statement): Promise<unknown> };
