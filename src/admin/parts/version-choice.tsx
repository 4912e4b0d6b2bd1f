import { Plus } from "lucide-react";
import { useEffect, useRef } from "react";
import type { Service, Subscription } from "../answers.ts";
import { Select } from "../design/field.tsx";
import { serviceKey, useActiveVersions, useNewestVersion } from "../services.ts";
import { texts } from "../texts.ts";

const t = texts.novation;

/** Adds a service on its newest version; then picks another version or takes the service out again. */
export function VersionChoice({
  service,
  value,
  onChange,
}: {
  service: Service;
  value: Subscription;
  onChange: (value: Subscription) => void;
}) {
  const key = serviceKey(service.name);
  const version = value.contractedServices[key];
  const newestOf = useNewestVersion();
  const sorted = useActiveVersions(version === undefined ? undefined : service.name);
  const place = useRef<HTMLDivElement>(null);
  const isChosen = useRef(false);
  useEffect(() => {
    // The button or select that had the focus is gone.
    if (isChosen.current) place.current?.querySelector<HTMLElement>("button, select")?.focus();
    isChosen.current = false;
  }, [version]);
  const choose = (chosen: string) => {
    const { [key]: _, ...services } = value.contractedServices;
    const { [key]: plan, ...plans } = value.subscriptionPlans;
    const { [key]: addOns, ...others } = value.subscriptionAddOns;
    isChosen.current = true;
    if (chosen === "") {
      onChange({ contractedServices: services, subscriptionPlans: plans, subscriptionAddOns: others });
      return;
    }
    onChange({
      contractedServices: { ...services, [key]: chosen },
      subscriptionPlans: plan === undefined ? plans : { ...plans, [key]: plan },
      subscriptionAddOns: addOns === undefined ? others : { ...others, [key]: addOns },
    });
  };
  const add = async () => {
    const newest = await newestOf(service);
    choose(newest ?? "");
  };
  if (version === undefined) {
    return (
      <div ref={place}>
        <button type="button" className="b small" onClick={() => void add()}>
          <Plus />
          {t.addService(service.name)}
        </button>
      </div>
    );
  }
  const versions = [...new Set([...(sorted ?? Object.keys(service.activePricings)), version])];
  return (
    <div ref={place}>
      <Select
        label={`${texts.contracts.version}: ${service.name}`}
        value={version}
        onChange={choose}
        options={[
          ...versions.map((each) => [each, each === sorted?.[0] ? t.newest(each) : each] as const),
          ["", t.notContracted] as const,
        ]}
      />
    </div>
  );
}
