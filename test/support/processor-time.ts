/** Milliseconds of processor time that this process spends until `work` settles. Unlike wall time, other processes do not add to it. */
export async function processorMs(work: () => unknown): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
