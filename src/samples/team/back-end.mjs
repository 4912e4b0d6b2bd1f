import { Faregate, ServiceRequestError } from "faregate/client";

/*
 * The part of a back end that a team page needs. The key stays here: browsers only get the team of who is signed in. Your framework
 * calls it with a Request, and with the id of the contract that your session has. Check before that this person may change the team.
 */

const faregate = new Faregate({
  url: process.env.FAREGATE_URL ?? "http://localhost:3000",
  apiKey: process.env.FAREGATE_KEY,
});
/** The limit that counts members. */
const SEATS = { service: "huddle", limit: "seats" };

/** GET answers the team; POST adds a member, or changes the name; DELETE removes one. All answer the team as it is then. */
export async function team(request, userId) {
  const { contracts } = faregate;
  try {
    if (request.method === "POST") {
      const { id, name } = await request.json();
      await contracts.members.put(userId, id, { name });
    }
    if (request.method === "DELETE") {
      const { id } = await request.json();
      await contracts.members.remove(userId, id);
    }
  } catch (error) {
    if (!(error instanceof ServiceRequestError) || error.status === undefined || error.status >= 500) throw error;
    // Such as a member that has no seat.
    return Response.json({ error: error.message }, { status: error.status });
  }
  const [{ data, total }, balances] = await Promise.all([
    contracts.members.list(userId, { limit: 100 }),
    contracts.balances(userId),
  ]);
  const seats = balances.find(({ service, limit }) => service === SEATS.service && limit === SEATS.limit);
  return Response.json({ members: data, total, seats: seats && { taken: seats.consumed, of: seats.limitNow } });
}
