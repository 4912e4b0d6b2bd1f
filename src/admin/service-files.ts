import { type Manifest, MANIFEST, type VersionEntry } from "../core/folder/manifest.ts";
import { manifestText } from "../core/folder/manifest-text.ts";
import { formerName, Names } from "../core/folder/names.ts";
import type { VersionFile } from "./answers.ts";
import { call, callForText, path } from "./api.ts";

/**
 * Reads the versions of a service as the folder that `npx faregate export` writes. Leaves out versions that were renamed
 * when the service was created again. @throws Refused
 */
export async function readServiceFiles(base: string, service: string): Promise<Map<string, string>> {
  const { parsePricing } = await import("../core/pricing/parse/pricing.ts");
  const at = base + path`/services/${service}`;
  const names = new Names([]);
  const folder = names.folder(service);
  const files = new Map<string, string>([[MANIFEST, ""]]);
  const entries: VersionEntry[] = [];
  const saasNames: string[] = [];
  for (const { pricingVersion, saasName, state, expectations } of await call<VersionFile[]>("GET", `${at}/versions`)) {
    const to = at + path`/pricings/${pricingVersion}`;
    const text = await callForText(`${to}/source`);
    const parsed = parsePricing(text, new Date());
    if (parsed.ok && keyOf(parsed.pricing.version) !== keyOf(pricingVersion)) continue;
    const file = names.file(folder, pricingVersion, ".yml");
    files.set(file, text);
    saasNames.push(saasName);
    const entry = { file, state };
    if (expectations === null) entries.push(entry);
    else {
      const beside = names.file(folder, pricingVersion, ".expectations.yml");
      files.set(beside, await callForText(`${to}/expectations`));
      entries.push({ ...entry, expectations: beside });
    }
  }
  const renamedFrom = formerName(service, saasNames);
  const named = { name: service, ...(renamedFrom === undefined ? {} : { renamedFrom }) };
  const manifest: Manifest = { services: [{ ...named, versions: entries }] };
  return files.set(MANIFEST, manifestText(manifest));
}

/** Comparison key of a version: `_` equals `.`. */
const keyOf = (version: string) => version.replaceAll("_", ".");
