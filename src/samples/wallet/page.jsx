import { createRoot } from "react-dom/client";
import { Wallet } from "./wallet.jsx";

/** Stands for your checkout: it buys 500, and tells your back end when it is paid. */
async function topUp() {
  const order = crypto.randomUUID();
  await fetch("/wallet", { method: "POST", body: JSON.stringify({ order, amount: 500 }) });
}

createRoot(document.getElementById("wallet")).render(<Wallet address="/wallet" onTopUp={topUp} />);
