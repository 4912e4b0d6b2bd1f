import { anchorOf, ERRORS } from "../../wire/errors/catalogue.ts";
import { ANSWER_CODES } from "../../wire/errors/codes.ts";

/*
 * The page of GET /docs/errors, to which the header Link of each error leads. It needs neither a key nor the console nor
 * scripts, so that a person, a terminal and an agent can read it on every runtime.
 */

const SIGNS: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (sign) => SIGNS[sign] ?? sign);
/** Escapes a text whose backquotes stand for code. */
const marked = (text: string): string => escaped(text).replace(/`([^`]+)`/g, "<code>$1</code>");
const row = (...cells: readonly string[]): string => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`;

const STYLE =
  "body{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}table{border-collapse:collapse;width:100%}td{border-top:1px solid #8886;padding:.4rem .8rem .4rem 0;vertical-align:top;width:50%;overflow-wrap:anywhere}ul{margin:0;padding:0;list-style:none}:target{background:#fc08}";

const kindHtml = (kind: (typeof ERRORS)[keyof typeof ERRORS]): string => `<section>
<h2 id="${anchorOf(kind)}">${kind.status} ${kind.title}</h2>
<p>${marked(kind.meaning)} <strong>${marked(kind.remedy)}</strong></p>
<table>
${kind.groups
  .map(({ remedy, sentences }) =>
    row(`<ul>${sentences.map((each) => `<li>${escaped(each)}</li>`).join("")}</ul>`, marked(remedy)),
  )
  .join("\n")}
</table>
</section>`;

let page: string | undefined;

/** Returns the page, which is made once per process. */
export function errorsPage(): string {
  page ??= `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Faregate: errors</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<h1>Errors</h1>
<p>Each error is <code>{"error": "…"}</code> with one of these sentences; words in braces vary. Its header <code>Link</code>
leads to its part of this page. The <a href="../docs">API reference</a> shows which statuses each call has.</p>
${Object.values(ERRORS).map(kindHtml).join("\n")}
<section>
<h2 id="codes">Codes in answers</h2>
<p>An answer 200 about a feature or an item of usage can contain one of these codes.</p>
<table>
${Object.entries(ANSWER_CODES)
  .map(([code, remedy]) => row(`<code>${code}</code>`, marked(remedy)))
  .join("\n")}
</table>
</section>
</body>
</html>
`;
  return page;
}
