import { Marked, type Tokens } from "marked";

/*
 * The guides of src/docs, inside the console: they work offline and describe the version that runs.
 */

/** Names of the guides with their texts, in reading order. */
const SOURCES: Readonly<Record<string, () => Promise<{ default: string }>>> = {
  concepts: () => import("../docs/concepts.md?raw"),
  "pricing-file": () => import("../docs/pricing-file.md?raw"),
  "change-a-pricing": () => import("../docs/change-a-pricing.md?raw"),
  promotion: () => import("../docs/promotion.md?raw"),
  clients: () => import("../docs/clients.md?raw"),
  usage: () => import("../docs/usage.md?raw"),
  "local-evaluation": () => import("../docs/local-evaluation.md?raw"),
  "custom-terms": () => import("../docs/custom-terms.md?raw"),
  credits: () => import("../docs/credits.md?raw"),
  ai: () => import("../docs/ai.md?raw"),
  teams: () => import("../docs/teams.md?raw"),
  offers: () => import("../docs/offers.md?raw"),
  errors: () => import("../docs/errors.md?raw"),
  billing: () => import("../docs/billing.md?raw"),
  events: () => import("../docs/events.md?raw"),
  openfeature: () => import("../docs/openfeature.md?raw"),
  agents: () => import("../docs/agents.md?raw"),
  guarantees: () => import("../docs/guarantees.md?raw"),
  "migrate-from-space": () => import("../docs/migrate-from-space.md?raw"),
  "sign-in": () => import("../docs/sign-in.md?raw"),
  operate: () => import("../docs/operate.md?raw"),
  runtimes: () => import("../docs/runtimes.md?raw"),
  scale: () => import("../docs/scale.md?raw"),
  benchmarks: () => import("../docs/benchmarks.md?raw"),
};

/** A part of a guide below one heading. */
export interface GuideSection {
  heading: string;
  /** Id of the heading; empty for the beginning of the guide. */
  anchor: string;
  text: string;
}

export interface Guide {
  name: string;
  title: string;
  html: string;
  sections: GuideSection[];
}

const slugOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{Letter}\p{Number}\s-]/gu, "")
    .trim()
    .replace(/\s+/g, "-");

/** Loads every guide. The first call downloads them. */
export async function readGuides(): Promise<Guide[]> {
  return Promise.all(Object.entries(SOURCES).map(async ([name, load]) => guideFrom(name, (await load()).default)));
}

/** Renders a guide and splits it at its headings. Links to other guides become links of the console. */
export function guideFrom(name: string, markdown: string): Guide {
  const sections: GuideSection[] = [];
  const marked = new Marked({
    renderer: {
      heading({ tokens, text, depth }: Tokens.Heading) {
        return `<h${depth} id="${slugOf(text)}">${this.parser.parseInline(tokens)}</h${depth}>`;
      },
      code({ text }: Tokens.Code) {
        return `<pre tabindex="0"><code>${escaped(text)}</code></pre>`;
      },
      table({ header, rows }: Tokens.Table) {
        const cells = (row: Tokens.TableCell[], tag: string) =>
          row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join("");
        const isNamed = header.some(({ text }) => text !== "");
        const head = isNamed ? `<thead><tr>${cells(header, "th")}</tr></thead>` : "";
        const body = rows.map((row) => `<tr>${cells(row, "td")}</tr>`).join("");
        return `<div class="scroll" tabindex="0"><table>${head}<tbody>${body}</tbody></table></div>`;
      },
      link({ href, tokens }: Tokens.Link) {
        const inner = this.parser.parseInline(tokens);
        const guide = /^([\w-]+)\.md(#.*)?$/.exec(href);
        if (guide !== null) return `<a class="link" href="docs/${guide[1]}${guide[2] ?? ""}">${inner}</a>`;
        if (href.startsWith("#")) return `<a class="link" href="docs/${name}${href}">${inner}</a>`;
        return href.startsWith("https://") ? `<a class="link" href="${escaped(href)}">${inner}</a>` : inner;
      },
    },
  });
  const tokens = marked.lexer(markdown);
  for (const token of tokens) {
    const last = sections.at(-1);
    if (token.type === "heading") sections.push({ heading: token["text"], anchor: slugOf(token["text"]), text: "" });
    else if (last !== undefined) last.text += `${token.raw}\n`;
  }
  return { name, title: sections[0]?.heading ?? name, html: marked.parser(tokens), sections };
}

const escaped = (text: string): string => text.replace(/[&<>"]/g, (sign) => `&#${sign.codePointAt(0) ?? 0};`);

/** A section that contains every searched word. */
export interface GuideMatch {
  guide: Guide;
  section: GuideSection;
  excerpt: string;
}

const EXCERPT = 140;

/** Finds sections with all words, those with a word in the heading first. */
export function searchGuides(guides: readonly Guide[], words: readonly string[]): GuideMatch[] {
  const wanted = words.map((word) => word.toLowerCase()).filter((word) => word !== "");
  if (wanted.length === 0) return [];
  const matches = guides.flatMap((guide) =>
    guide.sections.flatMap((section): GuideMatch[] => {
      const text = `${section.heading}\n${section.text}`.toLowerCase();
      if (!wanted.every((word) => text.includes(word))) return [];
      const at = Math.max(0, section.text.toLowerCase().indexOf(wanted[0] ?? "") - EXCERPT / 3);
      const excerpt = section.text
        .slice(at, at + EXCERPT)
        .replace(/\s+/g, " ")
        .trim();
      return [{ guide, section, excerpt }];
    }),
  );
  const inHeading = ({ section }: GuideMatch) =>
    wanted.some((word) => section.heading.toLowerCase().includes(word)) ? 0 : 1;
  return matches.toSorted((one, other) => inHeading(one) - inHeading(other));
}
