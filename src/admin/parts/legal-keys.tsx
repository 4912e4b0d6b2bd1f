import type { LegalKeys } from "../../core/pricing/parse/rename-keys.ts";
import { Section } from "../design/page.tsx";
import { Table } from "../design/table.tsx";
import { formatNumber } from "../format.ts";
import { texts } from "../texts.ts";

const t = texts.upload.keys;
const SHOWN = 20;

/** Shows what illegal keys of a draft would become, and renames them in its text; or why they cannot be renamed. */
export function LegalKeysOffer(props: {
  legal: LegalKeys;
  onText: (text: string) => void;
  onLine: (line: number) => void;
}) {
  const { legal, onText, onLine } = props;
  if (!legal.ok) {
    return (
      <Section title={t.title} lead={t.byHand}>
        <ol className="problems">
          {legal.conflicts.slice(0, SHOWN).map(({ line, column, message }) => (
            <li key={`${line}:${column}`}>
              <button type="button" className="b small" onClick={() => onLine(line)}>
                {texts.upload.goTo(line)}
              </button>{" "}
              {message}
            </li>
          ))}
        </ol>
      </Section>
    );
  }
  const { text, renames } = legal;
  if (renames.length === 0) return null;
  return (
    <Section title={t.title} lead={t.lead}>
      <Table label={t.title} head={[t.key, t.becomes, t.places]}>
        {renames.slice(0, SHOWN).map(({ map, from, to, line, places }) => (
          <tr key={`${map} ${from}`}>
            <th scope="row">
              <button type="button" className="link" title={texts.upload.goTo(line)} onClick={() => onLine(line)}>
                <code>{from}</code>
              </button>
            </th>
            <td>
              <code>{to}</code>
            </td>
            <td className="right num">{formatNumber(places)}</td>
          </tr>
        ))}
      </Table>
      {renames.length > SHOWN ? <p className="hint">{t.more(renames.length - SHOWN)}</p> : null}
      <div className="actions">
        <button type="button" className="b" onClick={() => onText(text)}>
          {t.rename(renames.length)}
        </button>
      </div>
    </Section>
  );
}
