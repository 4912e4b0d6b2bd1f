import { customType, timestamp } from "drizzle-orm/pg-core";

export const moment = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: "date" });
export const createdAt = () => moment("created_at").notNull().defaultNow();
export const updatedAt = () => moment("updated_at").notNull().defaultNow();

/** Exact decimal amounts: 0.1 + 0.2 is 0.3 in a balance. Read and written as JavaScript numbers. */
export const amount = customType<{ data: number; driverData: string }>({
  dataType: () => "numeric",
  fromDriver: (value) => Number(value),
  toDriver: (value) => String(value),
});

export const transactionId = customType<{ data: string }>({ dataType: () => "xid8" });
