/** Text of a file, inlined by Vite. */
declare module "*?raw" {
  const text: string;
  export default text;
}
