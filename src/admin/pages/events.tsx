import { useSearchParams } from "react-router";
import { EVENT_CODES } from "../../core/event-messages.ts";
import { formatMoment } from "../format.ts";
import { EventList } from "../parts/event-list.tsx";
import { Select } from "../design/field.tsx";
import { Page } from "../design/page.tsx";
import { useStream } from "../stream.tsx";
import { texts } from "../texts.ts";

const t = texts.events;

export function EventsPage() {
  const stream = useStream();
  const [search, setSearch] = useSearchParams();
  const code = search.get("code") ?? "";
  const shown = code === "" ? stream.events : stream.events.filter((event) => event.code === code);
  const oldest = stream.events.at(-1);
  return (
    <Page title={t.title} lead={t.lead}>
      <div className="fields">
        <Select
          label={t.filter}
          value={code}
          onChange={(chosen) => setSearch(chosen === "" ? {} : { code: chosen }, { replace: true })}
          options={[["", texts.common.all], ...EVENT_CODES.map((each) => [each, each] as const)]}
        />
      </div>
      <EventList stream={{ ...stream, events: shown }} />
      <p className="hint">
        {stream.isCut ? t.lost : t.earlier} {oldest === undefined ? "" : formatMoment(oldest.createdAt)}
      </p>
    </Page>
  );
}
