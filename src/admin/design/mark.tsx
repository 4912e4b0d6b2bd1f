/** The product's mark: two paddles of a gate. */
export function Mark({ className = "mark" }: { className?: string }) {
  return (
    <span className={className}>
      <svg viewBox="0 0 20 20" aria-hidden="true">
        <path d="M2.5 4.2 9 7.4v5.2l-6.5 3.2zM17.5 4.2 11 7.4v5.2l6.5 3.2z" />
      </svg>
    </span>
  );
}

const characters = new Intl.Segmenter(undefined, { granularity: "grapheme" });

/** Splits into what readers see as characters: an emoji of several code points is one. */
const charactersOf = (text: string): string[] => Array.from(characters.segment(text), ({ segment }) => segment);

/** Returns the first characters of the first two words, or of the only one. */
export function initialsOf(name: string): string {
  const words = name.split(/[\s._@-]+/).filter(Boolean);
  const letters =
    words.length > 1
      ? words.slice(0, 2).flatMap((word) => charactersOf(word)[0] ?? [])
      : charactersOf(name).slice(0, 2);
  return letters.join("").toUpperCase();
}

/** A person's or program's initials. */
export function Face({ name, isBig }: { name: string; isBig?: boolean }) {
  return (
    <span className={isBig === true ? "face big not-phone" : "face"} aria-hidden="true">
      {initialsOf(name)}
    </span>
  );
}
