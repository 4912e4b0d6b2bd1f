import { Info, Package, Tag as TagIcon, Trash2 } from "lucide-react";
import { useState } from "react";
import { ChangeRow, Delta } from "../design/change.tsx";
import { Id, Snippet } from "../design/copy.tsx";
import { Dialog, Sheet } from "../design/dialog.tsx";
import { Area, Check, Field, Segment, Select } from "../design/field.tsx";
import { Face } from "../design/mark.tsx";
import { MenuItem, MenuLine, MoreMenu } from "../design/menu.tsx";
import { Meter } from "../design/meter.tsx";
import { Empty, Note, Page, Section, Skeleton } from "../design/page.tsx";
import { Status, Table, Tag } from "../design/table.tsx";
import { useTell } from "../design/toast.tsx";
import { texts } from "../texts.ts";

const t = texts.design;
const PLANS = ["FREE", "PRO", "BUSINESS"] as const;

/** Every part of the design once, in its states. In no menu: it is for those who build pages. */
export function DesignPage() {
  return (
    <Page title={t.title} lead={t.lead}>
      <div className="half">
        <Buttons />
        <Section title={t.status}>
          <p className="row wrap wide">
            <Status tone="good">Active</Status>
            <Status tone="warn">Near a limit</Status>
            <Status tone="bad">Expired</Status>
            <Status tone="info">Trial</Status>
            <Status>Archived</Status>
          </p>
          <p className="row wrap">
            <Tag>Now</Tag>
            <Tag tone="good">Best fit</Tag>
            <Tag tone="warn">Pays more</Tag>
            <Tag tone="bad">Loses 200 tasks</Tag>
            <Tag tone="info">Scheduled</Tag>
            <Id id="ada" />
            <Face name="Ada Lovelace" />
          </p>
        </Section>
        <Fields />
        <Section title={t.meters}>
          <Meter label="Tasks" share={0.4} />
          <Meter label="Guests" share={0.85} />
          <Meter label="Automation runs" share={1.04} />
          <p className="row">
            <Delta before="€8.00" after="€12.00" />
          </p>
          <ul className="diff" aria-label={t.changes}>
            <ChangeRow effect="more" word="Gets" name={<b className="strong">Tasks</b>}>
              <Delta before="200" after="2,000" tone="good" />
            </ChangeRow>
            <ChangeRow effect="less" word="Loses" name={<b className="strong">Export</b>}>
              <Delta before="Yes" after="No" tone="bad" />
            </ChangeRow>
            <ChangeRow effect="different" word="Changes" name={<b className="strong">SLA</b>}>
              <Delta before="99%" after="99.9%" />
            </ChangeRow>
          </ul>
        </Section>
        <Section title={t.notes}>
          <Note icon={Info}>
            <b className="strong">Changes to FREE on 23 Dec 2026.</b> <span className="soft">Asked for by mail</span>
          </Note>
          <Note tone="good">Key created</Note>
          <Note tone="warn">The connection was lost.</Note>
          <Note tone="bad">The usage could not be loaded.</Note>
        </Section>
        <Section title={t.empty}>
          <Empty icon={TagIcon}>No custom terms</Empty>
          <Skeleton lines={3} />
        </Section>
        <Overlays />
        <Section title={t.tables}>
          <Table label={t.tables} head={["Plan", "Price"]}>
            {PLANS.map((plan, index) => (
              <tr key={plan}>
                <th scope="row">{plan}</th>
                <td className="right num">€{index * 6}.00</td>
              </tr>
            ))}
          </Table>
          <Snippet label="curl" text="curl -X POST /api/v1/features/ada -H 'x-api-key: YOUR_KEY'" />
        </Section>
      </div>
    </Page>
  );
}

function Buttons() {
  return (
    <Section title={t.buttons}>
      <p className="row wrap">
        <button type="button" className="b primary">
          Primary
        </button>
        <button type="button" className="b">
          <Package />
          Secondary
        </button>
        <button type="button" className="b plain">
          Plain
        </button>
        <button type="button" className="b danger">
          Delete contract
        </button>
        <button type="button" className="b" disabled>
          Disabled
        </button>
        <button type="button" className="b small">
          Small
        </button>
        <MoreMenu label={texts.common.more}>
          <MenuItem icon={Package} onSelect={() => {}}>
            Extend by 30 days
          </MenuItem>
          <MenuLine />
          <MenuItem icon={Trash2} isBad onSelect={() => {}}>
            Delete contract
          </MenuItem>
        </MoreMenu>
      </p>
    </Section>
  );
}

function Fields() {
  const [text, setText] = useState("lots");
  const [plan, setPlan] = useState<(typeof PLANS)[number]>("PRO");
  const [isOn, setIsOn] = useState(true);
  return (
    <Section title={t.fields}>
      <Field label="Reason" hint="Kept in the activity log" value="Launch week" onChange={() => {}} />
      <Field
        label="New limit"
        value={text}
        onChange={setText}
        problem={/^\d+$/.test(text) ? undefined : "Enter a number of at least 0"}
      />
      <Select label="Plan" value={plan} onChange={setPlan} options={PLANS.map((each) => [each, each] as const)} />
      <Segment label="Plan" value={plan} onChange={setPlan} options={PLANS.map((each) => [each, each] as const)} />
      <Check label="Renews automatically" checked={isOn} onChange={setIsOn} />
      <Area label="Note" rows={2} value="" onChange={() => {}} />
    </Section>
  );
}

function Overlays() {
  const tell = useTell();
  const [shown, setShown] = useState<"dialog" | "sheet">();
  const close = () => setShown(undefined);
  return (
    <Section title={t.overlays}>
      <p className="row wrap">
        <button type="button" className="b" onClick={() => setShown("dialog")}>
          Dialog
        </button>
        <button type="button" className="b" onClick={() => setShown("sheet")}>
          Sheet
        </button>
        <button type="button" className="b" onClick={() => tell("Key renamed to CI", () => tell("Undone"))}>
          Toast
        </button>
      </p>
      {shown === "dialog" ? (
        <Dialog title="Delete Ada Lovelace’s contract?" onClose={close}>
          <p>Ada loses all 5 features at once.</p>
        </Dialog>
      ) : null}
      {shown === "sheet" ? (
        <Sheet
          title="Change plan"
          subject="Ada Lovelace, PRO"
          onClose={close}
          isChanged
          footer={<span>BUSINESS from now on</span>}
        >
          <p>Choices</p>
        </Sheet>
      ) : null}
    </Section>
  );
}
