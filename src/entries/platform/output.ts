const ignore = () => {};

/** Keeps this process working when nobody reads its output any more, as behind `head`. */
export function outliveReaders(): void {
  if (!process.stdout.listeners("error").includes(ignore)) process.stdout.on("error", ignore);
}
