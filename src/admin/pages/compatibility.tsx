import { Link } from "react-router";
import { may } from "../access.ts";
import { Page } from "../parts/page.tsx";
import { Table } from "../parts/table.tsx";
import { useUser } from "../session.tsx";
import { texts } from "../texts.ts";

const t = texts.compatibility;

/** Pages with the GET call whose permission shows them. */
const PAGES = [
  ["analytics", "/analytics/api-calls"],
  ["cache", "/cache/get"],
] as const;

/** Links to the pages of endpoints that only older clients use. */
export function CompatibilityPage() {
  const { username, role } = useUser();
  const pages = PAGES.filter(([, call]) => may({ username, role, inOrganization: undefined }, "GET", call));
  return (
    <Page title={t.title} lead={t.lead}>
      <Table label={t.title} head={[t.page, t.purpose]}>
        {pages.map(([name]) => {
          const [title, purpose] = t.pages[name];
          return (
            <tr key={name}>
              <th scope="row">
                <Link to={`/${name}`}>{title}</Link>
              </th>
              <td>{purpose}</td>
            </tr>
          );
        })}
      </Table>
    </Page>
  );
}
