import { Command } from "cmdk";
import {
  ArrowLeftRight,
  Package,
  Search,
  SearchCheck,
  Upload,
  UserPlus,
  UserRound,
  type LucideIcon,
} from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { useNavigate } from "react-router";
import { may, roleIn } from "../access.ts";
import type { Contract, Organization, Service } from "../answers.ts";
import { path } from "../api.ts";
import { useAsk } from "../queries.ts";
import { useUser } from "../session.tsx";
import { texts } from "../texts.ts";
import { nameOf } from "./contact.tsx";
import { usePages } from "./shell.tsx";

const t = texts.palette;
const PAUSE_MS = 150;
const SHOWN_PEOPLE = 5;

/** Finds people, actions, pages and services by their names. */
export function Palette({ organization, onClose }: { organization: Organization | undefined; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
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
      <Command label={t.placeholder} loop>
        <div className="cmd-in">
          <Search />
          <Command.Input value={text} onValueChange={setText} placeholder={t.placeholder} aria-label={t.placeholder} />
          <kbd>esc</kbd>
        </div>
        <Command.List className="cmd-list" label={t.placeholder}>
          <Command.Empty>{t.nothing}</Command.Empty>
          {organization === undefined ? null : <Found organization={organization} text={text} onClose={onClose} />}
          <Pages organization={organization} onClose={onClose} />
        </Command.List>
        <footer>
          <span>
            <kbd>↑</kbd> <kbd>↓</kbd> {t.choose}
          </span>
          <span>
            <kbd>↵</kbd> {t.open}
          </span>
        </footer>
      </Command>
    </dialog>
  );
}

function Item(props: {
  icon: LucideIcon;
  text: string;
  detail?: string;
  words?: string[];
  to: string;
  onClose: () => void;
}) {
  const go = useNavigate();
  const Icon = props.icon;
  return (
    <Command.Item
      value={`${props.text} ${props.detail ?? ""} ${props.to}`}
      keywords={props.words ?? []}
      onSelect={() => {
        props.onClose();
        void go(props.to);
      }}
    >
      <Icon />
      <span className="grow">{props.text}</span>
      <span className="small faint">{props.detail}</span>
    </Command.Item>
  );
}

/** People, actions about them, and services of the organization. */
function Found({ organization, text, onClose }: { organization: Organization; text: string; onClose: () => void }) {
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
  const services = useAsk<Service[]>(may(who, "GET", `${base}/services`) ? `${base}/services` : undefined, {
    limit: 1000,
  });
  const found = asked === "" ? [] : (people.data ?? []);
  return (
    <>
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
                onClose={onClose}
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
              onClose={onClose}
            />,
            <Item
              key="plan"
              icon={ArrowLeftRight}
              text={t.changePlan(nameOf(contract))}
              words={[asked]}
              to={home + path`/contracts/${userId}` + "?change=plan"}
              onClose={onClose}
            />,
          ];
        })}
        {may(who, "POST", `${base}/contracts`) ? (
          <Item icon={UserPlus} text={texts.contracts.add} to={`${home}/new-contract`} onClose={onClose} />
        ) : null}
        {may(who, "POST", `${base}/services`) ? (
          <Item icon={Upload} text={texts.services.upload} to={`${home}/upload`} onClose={onClose} />
        ) : null}
      </Command.Group>
      <Command.Group heading={t.groups.services}>
        {(services.data ?? []).map(({ id, name }) => (
          <Item key={id} icon={Package} text={name} to={home + path`/services/${name}`} onClose={onClose} />
        ))}
      </Command.Group>
    </>
  );
}

function Pages({ organization, onClose }: { organization: Organization | undefined; onClose: () => void }) {
  const { inside, server } = usePages(organization);
  return (
    <Command.Group heading={t.groups.pages}>
      {[...inside.flatMap(({ pages }) => pages), ...server].map(({ name, icon, to }) => (
        <Item key={name} icon={icon} text={texts.shell.pages[name]} to={to} onClose={onClose} />
      ))}
    </Command.Group>
  );
}
