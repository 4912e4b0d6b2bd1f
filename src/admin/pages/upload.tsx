import { useEffect, useState } from "react";
import { Link, useNavigate, useSearchParams } from "react-router";
import type { Service, UploadedService } from "../answers.ts";
import { call, path, Refused } from "../api.ts";
import { errorsOf } from "../draft-review.ts";
import { keepDraft, readDraft } from "../drafts.ts";
import { DraftFindings, ExpectationsFile, Findings, useComparison, useVerdict } from "../parts/draft-review.tsx";
import { DiffResult } from "../parts/diff-result.tsx";
import { FileDrop } from "../parts/file-drop.tsx";
import { LegalKeysOffer } from "../parts/legal-keys.tsx";
import { ReplayLater } from "../parts/replay-later.tsx";
import { Check, Field, Form } from "../design/field.tsx";
import { GuardedButton } from "../design/guarded-button.tsx";
import { Failed, Loaded, Page, Section } from "../design/page.tsx";
import { Tabs } from "../design/tabs.tsx";
import { Yaml } from "../parts/yaml.tsx";
import { useChange } from "../queries.ts";
import { serviceKey, useServices } from "../services.ts";
import { useHere } from "../here.tsx";
import { useServiceCrumbs } from "../parts/crumbs.ts";
import { texts } from "../texts.ts";

const t = texts.upload;

export function UploadPage() {
  const services = useServices();
  return (
    <Page title={t.title} lead={t.lead} crumbs={useServiceCrumbs()}>
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

/** Uploads a pricing, then opens its service. Warnings that were not shown before it stay on the page. */
function useUpload(expected: string, isReviewed: boolean) {
  const { base, organization } = useHere();
  const go = useNavigate();
  return useChange({
    change: ({ service, body }: { service: string | undefined; body: unknown }) =>
      call<UploadedService>(
        "POST",
        base + (service === undefined ? "/services" : path`/services/${service}/pricings`),
        {
          body,
        },
      ),
    touches: () => [`${base}/services`],
    done: (service) => t.saved(service.name),
    after: (service) => {
      keepDraft(organization.id, expected, "");
      if (isReviewed || service.warnings.length === 0) void go(toService(service));
    },
  });
}

const toService = ({ name }: Service): string => `../${path`services/${name}`}`;

/** Lists the warnings of the saved pricing with their lines. */
function Found({ service }: { service: UploadedService | undefined }) {
  if (service === undefined || service.warnings.length === 0) return null;
  return (
    <Section title={t.found(service.warnings.length)} lead={t.foundLead}>
      <Findings findings={service.warnings} isComplete={service.warningsComplete !== false} />
      <div className="actions">
        <Link className="b primary" to={toService(service)}>
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
  const [expectations, setExpectations] = useState<{ name: string; text: string }>();
  /** The draft whose errors the user accepted. */
  const [accepted, setAccepted] = useState<string>();
  const [at, setAt] = useState<{ line: number }>();
  const { verdict, isCurrent } = useVerdict(text, expectations?.text);
  const upload = useUpload(expected, true);
  useEffect(() => keepDraft(organization.id, expected, text), [organization.id, expected, text]);
  const valid = verdict?.state === "valid" ? verdict : undefined;
  const target = valid === undefined ? undefined : targetOf(valid, services, expected);
  const comparison = useComparison(target?.isPossible === true ? target.service : undefined, isCurrent, text);
  const fromServer = upload.error instanceof Refused ? upload.error.problems : [];
  const problems = verdict?.state === "broken" ? verdict.problems : fromServer;
  const errors = valid === undefined ? 0 : errorsOf(valid.review);
  const draft = JSON.stringify([text, expectations?.text]);
  const isAccepted = errors === 0 || accepted === draft;
  const isReviewed = isCurrent && target?.isPossible === true && !comparison.isPending;
  const reason = () => {
    if (text.trim() === "") return t.textFirst;
    if (isCurrent && verdict?.state === "broken") return t.problemsFirst;
    if (isCurrent && target?.isPossible === false) return t.otherFirst;
    if (!isReviewed) return t.checking;
    return isAccepted ? undefined : t.acceptFirst;
  };
  const save = () => {
    const form = new FormData();
    form.append("pricing", new Blob([text], { type: "application/yaml" }), "pricing.yml");
    // The server refuses a version that breaks its expectations.
    const isMet = valid?.review.expectations !== undefined && "met" in valid.review.expectations;
    if (expectations !== undefined && isMet)
      form.append("expectations", new Blob([expectations.text]), "expectations.yml");
    upload.mutate({ service: target?.service, body: form });
  };
  return (
    <div className="editor-split">
      <div className="stack wide">
        <FileDrop onText={setText} />
        <Yaml text={text} label={t.editor} onChange={setText} problems={problems} at={at} />
      </div>
      <div className="review">
        <ExpectationsFile file={expectations} onChange={setExpectations} />
        <div role="status" className="progress-line">
          {text.trim() !== "" && (verdict === undefined || (isCurrent && comparison.isPending)) ? t.checking : null}
          {valid === undefined
            ? null
            : `${valid.review.warnings.length === 0 && errors === 0 && target?.isPossible === true ? t.valid : ""} ${target?.sentence ?? ""} `}
          {target?.existing === undefined ? null : (
            <Link className="link" to={target.existing}>
              {texts.services.openVersion}
            </Link>
          )}
          {problems.length > 0 ? <strong>{t.problems(problems.length)}</strong> : null}
        </div>
        {problems.length > 0 ? (
          <ol className="problems">
            {problems.map((problem, index) => (
              <li key={index}>
                <button type="button" className="b small" onClick={() => setAt({ line: problem.line })}>
                  {t.goTo(problem.line)}
                </button>{" "}
                {problem.message} {problem.path === "" ? null : <code>{problem.path}</code>}
              </li>
            ))}
          </ol>
        ) : null}
        {isCurrent && verdict?.state === "broken" && verdict.legal !== undefined ? (
          <LegalKeysOffer legal={verdict.legal} onText={setText} onLine={(line) => setAt({ line })} />
        ) : null}
        {valid === undefined ? null : <DraftFindings review={valid.review} onLine={(line) => setAt({ line })} />}
        {comparison.data === undefined || valid === undefined ? null : (
          <DiffResult diff={comparison.data} to={valid.version} title={t.comparedWith(comparison.data.from.version)} />
        )}
        {target?.isPossible === true && target.service !== undefined && isCurrent ? (
          <ReplayLater key={text} service={target.service} tried={{ draft: text }} />
        ) : null}
        <Failed error={comparison.error} />
        <Failed error={upload.error} />
        {errors > 0 && isReviewed ? (
          <Check
            label={t.saveAnyway(errors)}
            checked={isAccepted}
            onChange={(checked) => setAccepted(checked ? draft : undefined)}
          />
        ) : null}
        <div className="actions">
          <GuardedButton
            className="b primary"
            reason={reason()}
            isBusy={upload.isPending || upload.isSuccess}
            onClick={save}
          >
            {upload.isPending ? t.saving : t.save}
          </GuardedButton>
        </div>
      </div>
    </div>
  );
}

function FromUrl() {
  const [search] = useSearchParams();
  const service = search.get("service") ?? undefined;
  const [url, setUrl] = useState("");
  const upload = useUpload(service ?? "", false);
  return (
    <Section title={t.ways.url}>
      <Form className="fields" onSubmit={() => upload.mutate({ service, body: { pricing: url } })}>
        <Field label={t.url} hint={t.urlHint} type="url" value={url} onChange={setUrl} required />
        <button type="submit" className="b primary" disabled={upload.isPending}>
          {upload.isPending ? t.saving : t.save}
        </button>
      </Form>
      <Failed error={upload.error} />
      <Found service={upload.data} />
    </Section>
  );
}

/** Finds the target service of a valid pricing, and checks that the upload is possible. */
function targetOf(
  { name, version }: { name: string; version: string },
  services: readonly Service[],
  expected: string,
): {
  service: string | undefined;
  sentence: string;
  isPossible: boolean;
  /** Address of the version that has the same number. */
  existing?: string;
} {
  const isSame = (version_: string) => version_.replaceAll("_", ".") === version.replaceAll("_", ".");
  const service = services.find((each) => serviceKey(each.name) === serviceKey(name));
  if (expected !== "" && serviceKey(name) !== serviceKey(expected)) {
    return { service: undefined, sentence: t.wrongService(name, expected), isPossible: false };
  }
  if (service === undefined) return { service: undefined, sentence: t.createsService(name, version), isPossible: true };
  if (service.name !== name) {
    return { service: service.name, sentence: t.otherCase(name, service.name), isPossible: false };
  }
  const existing = Object.keys({ ...service.activePricings, ...service.archivedPricings }).find(isSame);
  if (existing !== undefined) {
    const to = path`../services/${name}/versions/${existing}`;
    return { service: name, sentence: t.hasVersion(name, version), isPossible: false, existing: to };
  }
  return { service: name, sentence: t.addsVersion(name, version), isPossible: true };
}
