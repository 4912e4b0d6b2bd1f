/** Exports for server components (`faregate/react/server`): no React context, no browser API. */
export * from "../client/server.ts";
export { type ChoiceProps, type OfferLabels, type OfferTableProps, OfferTable } from "./offer-table.tsx";
