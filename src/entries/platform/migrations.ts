import { fileURLToPath } from "node:url";

/** SQL of the migrations. Apart from the other assets, because the npm package has these alone. */
export const MIGRATIONS = fileURLToPath(new URL("../../db/migrations", import.meta.url));
