/** Generates the types of an OpenAPI document. */
export function generateTypes(document: object): Promise<unknown>;
/** Prints what {@link generateTypes} returns. */
export function astToString(types: unknown): string;
