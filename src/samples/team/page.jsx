import { createRoot } from "react-dom/client";
import { Team } from "./team.jsx";

createRoot(document.getElementById("team")).render(<Team address="/team" />);
