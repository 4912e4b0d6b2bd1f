import { useQuery } from "@tanstack/react-query";
import { Search } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Link, useLocation, useNavigate, useParams } from "react-router";
import { Field } from "../design/field.tsx";
import { Empty, Loaded, Page } from "../design/page.tsx";
import { type Guide, readGuides, searchGuides } from "../guides.ts";
import { texts } from "../texts.ts";

const t = texts.docs;

/** The guides, searchable. They are part of the console, so they need no network. */
export function DocsPage() {
  const { guide: name } = useParams();
  const guides = useQuery({ queryKey: ["guides"], queryFn: readGuides, staleTime: Number.POSITIVE_INFINITY });
  const [text, setText] = useState("");
  const shown = guides.data?.find((guide) => guide.name === name);
  return (
    <Page
      title={shown?.title ?? t.title}
      {...(shown === undefined ? { lead: t.lead } : { crumbs: [[t.title, "/docs"] as const] })}
    >
      <div className="search-box">
        <Field label={t.search} icon={Search} type="search" value={text} onChange={setText} />
      </div>
      <Loaded query={guides} lines={10}>
        {(all) =>
          text.trim() !== "" ? (
            <Matches guides={all} text={text} onOpen={() => setText("")} />
          ) : shown === undefined ? (
            <Contents guides={all} />
          ) : (
            <Article guide={shown} />
          )
        }
      </Loaded>
    </Page>
  );
}

function Contents({ guides }: { guides: readonly Guide[] }) {
  return (
    <ul className="list">
      {guides.map(({ name, title, sections }) => (
        <li key={name}>
          <span className="grow">
            <Link className="link" to={`/docs/${name}`}>
              {title}
            </Link>
            <span className="small soft block">
              {sections
                .slice(1)
                .map(({ heading }) => heading)
                .join(" · ")}
            </span>
          </span>
        </li>
      ))}
    </ul>
  );
}

function Matches({ guides, text, onOpen }: { guides: readonly Guide[]; text: string; onOpen: () => void }) {
  const matches = searchGuides(guides, text.split(/\s+/));
  if (matches.length === 0) return <Empty>{t.nothing}</Empty>;
  return (
    <ul className="list" aria-label={t.found}>
      {matches.map(({ guide, section, excerpt }) => (
        <li key={`${guide.name} ${section.anchor}`}>
          <span className="grow">
            <Link className="link" to={`/docs/${guide.name}#${section.anchor}`} onClick={onOpen}>
              {section.heading === guide.title ? guide.title : `${guide.title}: ${section.heading}`}
            </Link>
            <span className="small soft block">{excerpt}</span>
          </span>
        </li>
      ))}
    </ul>
  );
}

function Article({ guide }: { guide: Guide }) {
  const go = useNavigate();
  const { hash } = useLocation();
  const article = useRef<HTMLElement>(null);
  useEffect(() => {
    const target = hash === "" ? null : article.current?.querySelector(`[id="${CSS.escape(hash.slice(1))}"]`);
    target?.scrollIntoView();
  }, [hash, guide]);
  return (
    <article
      ref={article}
      className="guide"
      // Stay inside the console: a link to another guide needs no reload.
      onClick={(event) => {
        const to = event.target instanceof Element ? event.target.closest("a")?.getAttribute("href") : null;
        if (to?.startsWith("docs/") !== true) return;
        event.preventDefault();
        void go(`/${to}`);
      }}
      // oxlint-disable-next-line react/no-danger -- the project's own guides, escaped by marked
      dangerouslySetInnerHTML={{ __html: guide.html.replace(/<h1[^>]*>.*?<\/h1>/, "") }}
    />
  );
}
