import { compareSync } from "bcryptjs";

/** Compares a password with a bcrypt hash. Runs in a thread of bcrypt-pool.ts. */
export default ({ password, hash }) => compareSync(password, hash);
