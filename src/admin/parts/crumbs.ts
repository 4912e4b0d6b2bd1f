import { path } from "../api.ts";
import type { Crumb } from "../design/page.tsx";
import { useHere } from "../here.tsx";
import { texts } from "../texts.ts";

/** Returns the pages above one that belongs to a service. */
export function useServiceCrumbs(service?: string): Crumb[] {
  const { home } = useHere();
  const services: Crumb = [texts.services.title, `${home}/services`];
  return service === undefined || service === ""
    ? [services]
    : [services, [service, home + path`/services/${service}`]];
}
