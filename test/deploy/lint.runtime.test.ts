import { execFile } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { DCLinter } from "dclint";
import { validate } from "dockerfile-utils";
import { load } from "js-yaml";
import { describe, expect, it } from "vitest";
import { DEPLOY, type Manifest, MANIFESTS, manifestsOf, read, ROOT } from "./manifests.ts";

const run = promisify(execFile);

describe("the Dockerfile", () => {
  it("is valid, and the check finds a mistake in it", () => {
    expect(validate(read("Dockerfile"))).toEqual([]);
    expect(validate(read("Dockerfile").replace("EXPOSE 3000", "EXPOSE many"))).not.toEqual([]);
  });

  it("is built on a release of Node that is maintained", () => {
    // Fails at end of life, as a reminder to update the base image. Source: nodejs/Release.
    const maintainedUntil: Record<string, string> = { 22: "2027-04-30", 24: "2028-04-30", 26: "2029-04-30" };
    const bases = [...read("Dockerfile").matchAll(/^FROM (\S+)/gm)].map(([, base]) => base);
    expect(new Set(bases).size).toBe(1);
    const release = /^node:(\d+)-slim$/.exec(bases[0] ?? "")?.[1] ?? "";
    expect(Date.parse(maintainedUntil[release] ?? "")).toBeGreaterThan(Date.now());
  });
});

describe("the compose file", () => {
  const errors = (path: string) => {
    const linter = new DCLinter({ rules: {}, quiet: true, debug: false, exclude: [] });
    const results = linter.lintFiles([path], false) as { messages: { type: string; message: string }[] }[];
    return results.flatMap(({ messages }) => messages.filter(({ type }) => type === "error"));
  };

  it("is valid, and the check finds a mistake in it", () => {
    expect(errors(resolve(DEPLOY, "compose.yaml"))).toEqual([]);
    const folder = mkdtempSync(join(tmpdir(), "faregate-compose-"));
    writeFileSync(join(folder, "compose.yaml"), read("compose.yaml").replaceAll("restart: unless", "restarts: unless"));
    expect(errors(join(folder, "compose.yaml"))).not.toEqual([]);
    rmSync(folder, { recursive: true });
  });
});

describe("the Kubernetes manifests", () => {
  /** Type-checks the documents as literals of Kubernetes' types: reports missing, wrong and unknown fields. */
  const problems = async (manifests: readonly Manifest[]) => {
    const folder = mkdtempSync(join(ROOT, "node_modules/.manifests-"));
    try {
      const lines = manifests.flatMap((manifest, i) => {
        const type = `import("kubernetes-models/${manifest.apiVersion}").I${manifest.kind}`;
        return [`export const m${i}: ${type} = ${JSON.stringify(manifest)};`];
      });
      writeFileSync(join(folder, "manifests.ts"), lines.join("\n"));
      const given = "--noEmit --strict --skipLibCheck --module esnext --moduleResolution bundler --types".split(" ");
      const tsc = resolve(ROOT, "node_modules/.bin/tsc");
      return await run(tsc, [...given, "", "--ignoreConfig", join(folder, "manifests.ts")], { cwd: folder }).then(
        () => "",
        (error: { stdout: string }) => error.stdout,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  };

  it("have only Kubernetes' fields, and the check finds a mistake in them", async () => {
    const manifests = MANIFESTS.flatMap(manifestsOf);
    expect(await problems(manifests)).toBe("");
    const misspelt = JSON.stringify(manifests).replaceAll("terminationGracePeriodSeconds", "terminationGraceSeconds");
    expect(await problems(JSON.parse(misspelt) as Manifest[])).toContain("terminationGraceSeconds");
  });

  it("are the resources of the kustomization, which names the image", () => {
    const { resources, images } = load(read("kubernetes/kustomization.yaml")) as {
      resources: string[];
      images: { name: string }[];
    };
    expect(resources).toEqual(MANIFESTS);
    expect(resources.every((file) => existsSync(resolve(DEPLOY, "kubernetes", file)))).toBe(true);
    expect(images.map(({ name }) => name)).toEqual(["faregate"]);
  });

  it("have an autoscaler and a disruption budget for both servers", () => {
    for (const file of ["rest.yaml", "events.yaml"]) {
      const kinds = manifestsOf(file).map(({ kind }) => kind);
      expect(kinds).toEqual(["Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"]);
    }
  });
});
