/** Keeps this process working when nobody reads its output any more, as behind `head`. */
export function outliveReaders(): void {
  if (process.stdout.listenerCount("error") === 0) process.stdout.on("error", () => {});
}
