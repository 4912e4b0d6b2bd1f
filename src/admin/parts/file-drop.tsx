import { Upload } from "lucide-react";
import { useId, useState, type DragEvent } from "react";
import { texts } from "../texts.ts";
import { Failed } from "../design/page.tsx";

const MAX_BYTES = 2_000_000;
const t = texts.upload;

/** Reads a file of text, or returns why it is none. */
export async function readText(file: File): Promise<string | Error> {
  // Loaded on first use, because it comes with the parser.
  const { decodeFile } = await import("../../core/pricing/parse/encoding.ts");
  const decoded = decodeFile(new Uint8Array(await file.arrayBuffer()));
  return decoded.ok ? decoded.text : new Error(t.encodings[decoded.encoding]);
}

/** Reads a text file, dropped or picked. */
export function FileDrop({ onText }: { onText: (text: string) => void }) {
  const id = useId();
  const [isOver, setIsOver] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const take = async (file: File | undefined) => {
    if (file === undefined) return;
    setError(file.size > MAX_BYTES ? new Error(t.tooLarge) : null);
    if (file.size > MAX_BYTES) return;
    const read = await readText(file);
    if (typeof read === "string") onText(read);
    else setError(read);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setIsOver(false);
    void take(event.dataTransfer.files[0]);
  };
  return (
    <>
      <div
        className={isOver ? "drop over" : "drop"}
        onDragOver={(event) => {
          event.preventDefault();
          setIsOver(true);
        }}
        onDragLeave={() => setIsOver(false)}
        onDrop={drop}
      >
        <Upload />
        <span>{t.drop}</span>
        <label className="b small" htmlFor={id}>
          {t.choose}
        </label>
        <input
          id={id}
          className="visually-hidden"
          type="file"
          accept=".yml,.yaml,.json,text/yaml,application/yaml"
          onChange={(event) => {
            void take(event.target.files?.[0]);
            event.target.value = "";
          }}
        />
      </div>
      <Failed error={error} />
    </>
  );
}
