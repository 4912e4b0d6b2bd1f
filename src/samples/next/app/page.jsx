import { Faregate } from "faregate";
import { Default, Feature, On, ServiceProvider } from "faregate/react";
import { parsePricingToken, usageOf } from "faregate/server";
import { NewTask } from "./new-task.jsx";

export const dynamic = "force-dynamic";

/*
 * A server component: it holds the API key, renders the first answer, and hands the token to the components in the page, which
 * renew it from a route of this application.
 */
export default async function Page() {
  const { features } = new Faregate({ url: process.env.FAREGATE_URL, apiKey: process.env.FAREGATE_KEY });
  const token = await features.pricingToken("ada");
  const { used, limit } = usageOf(parsePricingToken(token).features["tasker-board"]);
  return (
    <ServiceProvider config={{ allowConnectionWithService: false, initialToken: token }}>
      <p>
        Rendered with {used} of {limit} tasks.
      </p>
      <Feature id="tasker-board">
        <On>
          <NewTask />
        </On>
        <Default>You have used all tasks of this month.</Default>
      </Feature>
      <Feature id="tasker-export">
        <Default>Export comes with BUSINESS.</Default>
      </Feature>
    </ServiceProvider>
  );
}
