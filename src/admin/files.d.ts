/** Text of a file, inlined by Vite. */
declare module "*?raw" {
  const text: string;
  export default text;
}

/** A stylesheet, which Vite bundles. */
declare module "*.css" {}
