import { Faregate } from "faregate/client";

/*
 * The part of a back end that a wallet needs. The key stays here: browsers only get the balances of who is signed in. Your
 * framework calls it with a Request, and with the id that your session has.
 */

const faregate = new Faregate({
  url: process.env.FAREGATE_URL ?? "http://localhost:3000",
  apiKey: process.env.FAREGATE_KEY,
});

/** GET answers the balances; POST gives what was bought, once for each order. Your shop calls the second after a payment. */
export async function wallet(request, userId) {
  if (request.method === "POST") {
    const { order, amount } = await request.json();
    await faregate.contracts.blocks.give(userId, {
      service: "scribe",
      limit: "credits",
      amount,
      reason: `Top-up, order ${order}`,
      key: `order-${order}`,
    });
  }
  return Response.json(await faregate.contracts.balances(userId));
}
