import { Building2, ChevronsUpDown, Ellipsis, LogOut, UserRound } from "lucide-react";
import type { ReactNode } from "react";
import { useNavigate } from "react-router";
import { roleIn } from "../access.ts";
import type { Organization, OrganizationPage } from "../answers.ts";
import { Face, Mark } from "../design/mark.tsx";
import { Menu, MenuChoice, MenuItem, MenuLine } from "../design/menu.tsx";
import { ThemeChoice } from "../design/theme-choice.tsx";
import { chooseLanguage, chosenLanguage, LANGUAGE_NAMES } from "../language.ts";
import { useAsk } from "../queries.ts";
import { useSession, useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.shell;

export function OrganizationMenu({ current }: { current: Organization | undefined }) {
  const go = useNavigate();
  const list = useAsk<OrganizationPage>("/organizations", { limit: 20 });
  return (
    <Menu
      className="org"
      hasText
      label={current === undefined ? t.organization : `${t.organization}: ${current.name}`}
      trigger={
        <Trigger
          kind={t.organization}
          face={<Mark />}
          name={current?.name ?? t.organization}
          detail={t.product}
          icon={<ChevronsUpDown />}
        />
      }
    >
      {list.data?.data.map(({ id, name }) => (
        <MenuItem key={id} onSelect={() => void go(`/o/${id}`)}>
          {name}
        </MenuItem>
      ))}
      <MenuLine />
      <MenuItem icon={Building2} onSelect={() => void go("/organizations")}>
        {t.allOrganizations}
      </MenuItem>
    </Menu>
  );
}

export function AccountMenu({ organization }: { organization: Organization | undefined }) {
  const go = useNavigate();
  const user = useUser();
  const { signOut } = useSession();
  const role = roleIn(organization, user.username);
  const detail = role === undefined ? t.platformRoles[user.role] : texts.members.roles[role];
  return (
    <Menu
      className="org"
      hasText
      label={`${t.account}: ${user.username}`}
      trigger={
        <Trigger
          kind={t.account}
          face={<Face name={user.username} />}
          name={user.username}
          detail={detail}
          icon={<Ellipsis />}
        />
      }
    >
      <MenuItem icon={UserRound} onSelect={() => void go("/account")}>
        {t.account}
      </MenuItem>
      <p className="menu-label">{t.theme.label}</p>
      <ThemeChoice />
      <p className="menu-label">{t.language}</p>
      <MenuChoice label={t.language} value={chosenLanguage()} onChange={chooseLanguage} options={LANGUAGE_NAMES} />
      <MenuLine />
      <MenuItem icon={LogOut} onSelect={() => void signOut()}>
        {t.signOut}
      </MenuItem>
    </Menu>
  );
}

function Trigger({ kind, face, name, detail, icon }: Record<"kind" | "face" | "name" | "detail" | "icon", ReactNode>) {
  return (
    <>
      <span className="visually-hidden">{kind}: </span>
      {face}
      <span className="grow">
        <b className="clip">{name}</b>
        <small>{detail}</small>
      </span>
      {icon}
    </>
  );
}
