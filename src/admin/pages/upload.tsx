import { useEffect, useState } from "react";
import { Link, useNavigate, useSearchParams } from "react-router";
import type { PricingProblem } from "../../core/pricing/model.ts";
import type { Service, UploadedService } from "../answers.ts";
import { call, path, Refused } from "../api.ts";
import { keepDraft, readDraft } from "../drafts.ts";
import { FileDrop } from "../parts/file-drop.tsx";
import { Field, Form } from "../parts/field.tsx";
import { Failed, Loaded, Page, Section } from "../parts/page.tsx";
import { Badge } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { Yaml } from "../parts/yaml.tsx";
import { useChange } from "../queries.ts";
import { serviceKey, useServices } from "../services.ts";
import { useHere } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.upload;
const PAUSE_MS = 250;

/** Result of checking the text locally, before it is uploaded. */
type Verdict =
  | { state: "empty" | "checking" }
  | { state: "broken"; problems: readonly PricingProblem[] }
  | { state: "valid"; name: string; version: string };

export function UploadPage() {
  const services = useServices();
  return (
    <Page title={t.title} lead={t.lead}>
      <Loaded query={services} lines={12}>
        {(all) => (
          <Tabs
            label={t.title}
            tabs={[
              { id: "text", title: t.ways.text, content: <FromText services={all} /> },
              { id: "url", title: t.ways.url, content: <FromUrl /> },
            ]}
          />
        )}
      </Loaded>
    </Page>
  );
}

/** Uploads a pricing, then opens its service. With warnings it stays on the page, which lists them. */
function useUpload(expected: string) {
  const { base, organization } = useHere();
  const go = useNavigate();
  return useChange({
    change: ({ service, body }: { service: string | undefined; body: unknown }, key) =>
      call<UploadedService>(
        "POST",
        base + (service === undefined ? "/services" : path`/services/${service}/pricings`),
        {
          key,
          body,
        },
      ),
    touches: () => [`${base}/services`],
    done: (service) => t.saved(service.name),
    after: (service) => {
      keepDraft(organization.id, expected, "");
      if (service.warnings.length === 0) void go(toService(service));
    },
  });
}

const toService = ({ name }: Service): string => `../${path`services/${name}`}`;

const TONES = { error: "danger", warning: "warn", info: "plain" } as const;

/** Lists the warnings of the saved pricing with their lines. */
function Found({ service, onLine }: { service: UploadedService | undefined; onLine?: (line: number) => void }) {
  if (service === undefined || service.warnings.length === 0) return null;
  return (
    <Section title={t.found(service.warnings.length)} lead={t.foundLead}>
      <ol className="problems">
        {service.warnings.map(({ severity, path: place, line, message }, index) => (
          <li key={index}>
            {onLine === undefined ? (
              t.line(line)
            ) : (
              <button type="button" className="button small" onClick={() => onLine(line)}>
                {t.goTo(line)}
              </button>
            )}{" "}
            <Badge tone={TONES[severity]}>{t.severity[severity]}</Badge> {message} <code>{place}</code>
          </li>
        ))}
      </ol>
      {service.warningsComplete === false ? <p className="hint">{t.notAllFound}</p> : null}
      <div className="actions">
        <Link className="button primary" to={toService(service)}>
          {t.toService(service.name)}
        </Link>
      </div>
    </Section>
  );
}

function FromText({ services }: { services: readonly Service[] }) {
  const { organization } = useHere();
  const [search] = useSearchParams();
  const expected = search.get("service") ?? "";
  const [text, setText] = useState(() => readDraft(organization.id, expected));
  const [saved, setSaved] = useState("");
  const [at, setAt] = useState<{ line: number }>();
  const verdict = useVerdict(text);
  const upload = useUpload(expected);
  useEffect(() => keepDraft(organization.id, expected, text), [organization.id, expected, text]);
  const target = verdict.state === "valid" ? targetOf(verdict, services, expected) : undefined;
  const fromServer = upload.error instanceof Refused ? upload.error.problems : [];
  const problems = verdict.state === "broken" ? verdict.problems : fromServer;
  // Once saved, the version exists on the server; do not report that as a conflict.
  const isSaved = upload.isSuccess && text === saved;
  const save = () => {
    setSaved(text);
    const form = new FormData();
    form.append("pricing", new Blob([text], { type: "application/yaml" }), "pricing.yml");
    upload.mutate({ service: target?.service, body: form });
  };
  return (
    <>
      <FileDrop onText={setText} />
      <Yaml text={text} label={t.editor} onChange={setText} problems={problems} at={at} />
      <div role="status" className="verdict">
        {verdict.state === "checking" ? t.checking : null}
        {verdict.state === "valid" && !isSaved ? `${t.valid} ${target?.sentence ?? ""}` : null}
        {problems.length > 0 ? <strong>{t.problems(problems.length)}</strong> : null}
      </div>
      {problems.length > 0 ? (
        <ol className="problems">
          {problems.map((problem, index) => (
            <li key={index}>
              <button type="button" className="button small" onClick={() => setAt({ line: problem.line })}>
                {t.goTo(problem.line)}
              </button>{" "}
              {problem.message} {problem.path === "" ? null : <code>{problem.path}</code>}
            </li>
          ))}
        </ol>
      ) : null}
      <Failed error={upload.error} />
      <div className="actions">
        <button
          type="button"
          className="button primary"
          disabled={target?.isPossible !== true || upload.isPending || isSaved}
          onClick={save}
        >
          {upload.isPending ? t.saving : t.save}
        </button>
      </div>
      <Found service={upload.data} onLine={(line) => setAt({ line })} />
    </>
  );
}

function FromUrl() {
  const [search] = useSearchParams();
  const service = search.get("service") ?? undefined;
  const [url, setUrl] = useState("");
  const upload = useUpload(service ?? "");
  return (
    <Section title={t.ways.url}>
      <Form className="row" onSubmit={() => upload.mutate({ service, body: { pricing: url } })}>
        <Field label={t.url} hint={t.urlHint} type="url" value={url} onChange={setUrl} required />
        <button type="submit" className="button primary" disabled={upload.isPending}>
          {upload.isPending ? t.saving : t.save}
        </button>
      </Form>
      <Failed error={upload.error} />
      <Found service={upload.data} />
    </Section>
  );
}

/** Parses the text after a debounce, with the server's own parser, which is loaded on first use. */
function useVerdict(text: string): Verdict {
  const [verdict, setVerdict] = useState<Verdict>({ state: "empty" });
  useEffect(() => {
    if (text.trim() === "") {
      setVerdict({ state: "empty" });
      return undefined;
    }
    setVerdict((before) => (before.state === "empty" ? { state: "checking" } : before));
    let isOld = false;
    const timer = setTimeout(async () => {
      const { parsePricing } = await import("../../core/pricing/parse/pricing.ts");
      if (isOld) return;
      const result = parsePricing(text, new Date());
      if (!result.ok) return setVerdict({ state: "broken", problems: result.problems });
      return setVerdict({ state: "valid", name: result.pricing.saasName, version: result.pricing.version });
    }, PAUSE_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [text]);
  return verdict;
}

/** Finds the target service of a valid pricing, and checks that the upload is possible. */
function targetOf(
  { name, version }: { name: string; version: string },
  services: readonly Service[],
  expected: string,
): { service: string | undefined; sentence: string; isPossible: boolean } {
  const isSame = (version_: string) => version_.replaceAll("_", ".") === version.replaceAll("_", ".");
  const service = services.find((each) => serviceKey(each.name) === serviceKey(name));
  if (expected !== "" && serviceKey(name) !== serviceKey(expected)) {
    return { service: undefined, sentence: t.wrongService(name, expected), isPossible: false };
  }
  if (service === undefined) return { service: undefined, sentence: t.createsService(name, version), isPossible: true };
  if (service.name !== name) {
    return { service: service.name, sentence: t.otherCase(name, service.name), isPossible: false };
  }
  if (Object.keys({ ...service.activePricings, ...service.archivedPricings }).some(isSame)) {
    return { service: name, sentence: t.hasVersion(name, version), isPossible: false };
  }
  return { service: name, sentence: t.addsVersion(name, version), isPossible: true };
}
