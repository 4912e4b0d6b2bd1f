import { Command } from "cmdk";
import {
  ArrowLeftRight,
  Check,
  Package,
  Search,
  SearchCheck,
  Upload,
  UserPlus,
  UserRound,
  X,
  type LucideIcon,
} from "lucide-react";
import { useEffect, useRef, useState, type RefObject } from "react";
import { useNavigate } from "react-router";
import { may, roleIn } from "../access.ts";
import type { Contract, Organization } from "../answers.ts";
import { path } from "../api.ts";
import { useWithBlocks } from "../blocks.ts";
import { explainAll, usageById, verdictOf } from "../explain.ts";
import { formatName } from "../format.ts";
import { useAsk } from "../queries.ts";
import { usePricings } from "../pricings.ts";
import { useServicesBelow } from "../services.ts";
import { useUser } from "../session.tsx";
import { texts } from "../texts.ts";
import { nameOf } from "./contact.tsx";
import { JUMPS, IS_MAC } from "./shortcuts.ts";
import { usePages } from "./navigation.tsx";

const t = texts.palette;
const PAUSE_MS = 150;
const SHOWN_PEOPLE = 5;

/** Opens what was chosen: an address of the console. */
type Open = (to: string) => void;

/** Finds people, actions, pages and services by their names, and answers what somebody may use. */
export function Palette({ organization, onClose }: { organization: Organization | undefined; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  /** True while Ctrl or ⌘ is held, as the last key or click said. */
  const isNewTab = useRef(false);
  const go = useNavigate();
  const open: Open = (to) => {
    onClose();
    if (isNewTab.current) window.open(new URL(to.slice(1), document.baseURI), "_blank", "noopener");
    else void go(to);
  };
  const [chosen, setChosen] = useState("");
  useFirstChosen(dialog, setChosen);
  const held = (event: { metaKey: boolean; ctrlKey: boolean }) => {
    isNewTab.current = event.metaKey || event.ctrlKey;
  };
  const [text, setText] = useState("");
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    // The browser would focus the list around the field.
    element?.querySelector("input")?.focus();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={dialog} className="cmd" aria-label={t.placeholder} onClose={onClose}>
      <Command
        value={chosen}
        onValueChange={setChosen}
        label={t.placeholder}
        loop
        onKeyDownCapture={held}
        onClickCapture={held}
      >
        <div className="cmd-in">
          <Search />
          <Command.Input value={text} onValueChange={setText} placeholder={t.placeholder} aria-label={t.placeholder} />
          <kbd>esc</kbd>
        </div>
        <Command.List className="cmd-list" label={t.placeholder}>
          <Command.Empty>{t.nothing}</Command.Empty>
          {organization === undefined ? null : <Found organization={organization} text={text} onOpen={open} />}
          <Pages organization={organization} onOpen={open} />
        </Command.List>
        <footer>
          <span>
            <kbd>↑</kbd> <kbd>↓</kbd> {t.choose}
          </span>
          <span>
            <kbd>↵</kbd> {t.open}
          </span>
          <span>
            <kbd>{IS_MAC ? "⌘ ↵" : "Ctrl ↵"}</kbd> {t.newTab}
          </span>
        </footer>
      </Command>
    </dialog>
  );
}

/** Chooses the first entry when results arrive, until arrow keys moved the choice: cmdk itself does so only while typing. */
function useFirstChosen(dialog: RefObject<HTMLDialogElement | null>, choose: (value: string) => void): void {
  useEffect(() => {
    const root = dialog.current;
    if (root === null) return undefined;
    let isMoved = false;
    const onKey = ({ key }: KeyboardEvent) => {
      isMoved = key === "ArrowDown" || key === "ArrowUp";
    };
    root.addEventListener("keydown", onKey);
    const observer = new MutationObserver(() => {
      if (isMoved) return;
      const first = root.querySelector("[cmdk-item]")?.getAttribute("data-value");
      if (typeof first === "string") choose(first);
    });
    observer.observe(root, { childList: true, subtree: true });
    return () => {
      observer.disconnect();
      root.removeEventListener("keydown", onKey);
    };
  }, [dialog, choose]);
}

function Item(props: {
  icon: LucideIcon;
  text: string;
  detail?: string | undefined;
  words?: string[];
  to: string;
  onOpen: Open;
}) {
  const Icon = props.icon;
  return (
    <Command.Item
      value={`${props.text} ${props.detail ?? ""} ${props.to}`}
      keywords={props.words ?? []}
      onSelect={() => props.onOpen(props.to)}
    >
      <Icon />
      <span className="grow">{props.text}</span>
      <span className="small faint">{props.detail}</span>
    </Command.Item>
  );
}

/** People, actions about them, and services of the organization. */
function Found({ organization, text, onOpen }: { organization: Organization; text: string; onOpen: Open }) {
  const user = useUser();
  const [asked, setAsked] = useState("");
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const base = `/organizations/${organization.id}`;
  const home = `/o/${organization.id}`;
  const who = { username: user.username, role: user.role, inOrganization: roleIn(organization, user.username) };
  const people = useAsk<Contract[]>(
    asked !== "" && may(who, "GET", `${base}/contracts`) ? `${base}/contracts` : undefined,
    { q: asked.split(" ")[0], limit: SHOWN_PEOPLE },
  );
  const services = useServicesBelow(may(who, "GET", `${base}/services`) ? base : undefined);
  const found = asked === "" ? [] : (people.data ?? []);
  const [person] = found;
  return (
    <>
      {person === undefined || !asked.includes(" ") ? null : (
        <Answer contract={person} asked={asked} base={base} home={home} onOpen={onOpen} />
      )}
      {found.length === 0 ? null : (
        <Command.Group heading={t.groups.people}>
          {found.map((contract) => {
            const { userId } = contract.userContact;
            return (
              <Item
                key={userId}
                icon={UserRound}
                text={nameOf(contract)}
                detail={userId}
                words={[asked]}
                to={home + path`/contracts/${userId}`}
                onOpen={onOpen}
              />
            );
          })}
        </Command.Group>
      )}
      <Command.Group heading={t.groups.actions}>
        {found.slice(0, 1).map((contract) => {
          const { userId } = contract.userContact;
          return [
            <Item
              key="check"
              icon={SearchCheck}
              text={t.checkAccess(nameOf(contract))}
              words={[asked]}
              to={`${home}/playground?user=${encodeURIComponent(userId)}`}
              onOpen={onOpen}
            />,
            <Item
              key="plan"
              icon={ArrowLeftRight}
              text={t.changePlan(nameOf(contract))}
              words={[asked]}
              to={home + path`/contracts/${userId}` + "?change=plan"}
              onOpen={onOpen}
            />,
          ];
        })}
        {may(who, "POST", `${base}/contracts`) ? (
          <Item icon={UserPlus} text={texts.contracts.add} to={`${home}/new-contract`} onOpen={onOpen} />
        ) : null}
        {may(who, "POST", `${base}/services`) ? (
          <Item icon={Upload} text={texts.services.upload} to={`${home}/upload`} onOpen={onOpen} />
        ) : null}
      </Command.Group>
      <Command.Group heading={t.groups.services}>
        {(services.data ?? []).map(({ id, name }) => (
          <Item key={id} icon={Package} text={name} to={home + path`/services/${name}`} onOpen={onOpen} />
        ))}
      </Command.Group>
    </>
  );
}

/** Answers a question such as "ada exp": may this person use that feature? */
function Answer(props: { contract: Contract; asked: string; base: string; home: string; onOpen: Open }) {
  const { contract, asked, home } = props;
  const { pricingOf } = usePricings(Object.entries(contract.contractedServices));
  const feature = asked.slice(asked.indexOf(" ") + 1).toLowerCase();
  const current = useWithBlocks(props.base, contract);
  if (current === undefined) return null;
  const explained = explainAll(current, pricingOf, usageById(current), { server: false }).find(
    ({ name, expression }) => expression !== undefined && `${name} ${formatName(name)}`.toLowerCase().includes(feature),
  );
  if (explained === undefined) return null;
  const { userId } = contract.userContact;
  return (
    <Command.Group heading={t.groups.answer}>
      <Item
        icon={explained.result.eval ? Check : X}
        text={`${nameOf(contract)}, ${formatName(explained.name)}: ${verdictOf(explained)}`}
        words={[asked]}
        to={`${home}/playground?user=${encodeURIComponent(userId)}&feature=${encodeURIComponent(explained.id)}`}
        onOpen={props.onOpen}
      />
    </Command.Group>
  );
}

const jumpOf = (name: keyof typeof JUMPS): string | undefined => {
  const key = JUMPS[name];
  return key === undefined ? undefined : `G ${key.toUpperCase()}`;
};

function Pages({ organization, onOpen }: { organization: Organization | undefined; onOpen: Open }) {
  const { inside, server } = usePages(organization);
  return (
    <Command.Group heading={t.groups.pages}>
      {[...inside.flatMap(({ pages }) => pages), ...server].map(({ name, icon, to }) => (
        <Item key={name} icon={icon} text={texts.shell.pages[name]} detail={jumpOf(name)} to={to} onOpen={onOpen} />
      ))}
    </Command.Group>
  );
}
