import { databaseError } from "../../db/postgres/connect.ts";
import { Failure } from "../errors.ts";

/** How long a call waits for a contract that another transaction has locked. Then it fails as retryable. */
export const LOCK_WAIT_MS = 3000;

const LOCK_NOT_AVAILABLE = "55P03";

/** The failure of a call that waited too long for its contract, or found the queue full. */
export function tooBusy(): Failure {
  return new Failure("unavailable", "The contract is locked by other requests. Please try again", {
    retryAfterSeconds: 1,
  });
}

/** True for the error of a lock that was not free in time. */
export const isLockTimeout = (error: unknown): boolean => databaseError(error)?.code === LOCK_NOT_AVAILABLE;
