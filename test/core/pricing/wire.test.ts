import { expect, it } from "vitest";
import { pricingToWire } from "../../../src/core/pricing/wire.ts";
import { accept } from "./case-file.ts";

const UPLOAD = `saasName: Acme
syntaxVersion: "3.0"
version: "1.2.0"
createdAt: "2025-03-01"
currency: USD
tags: [Core]
variables: {base: 10, mult: 1.5}
features:
  boards:
    description: Boards
    valueType: BOOLEAN
    defaultValue: true
    expression: pricingContext['features']['boards'] && subscriptionContext['maxBoards'] < pricingContext['usageLimits']['maxBoards']
    type: DOMAIN
    tag: Core
  pay: {valueType: TEXT, type: PAYMENT, defaultValue: [CARD]}
usageLimits:
  maxBoards: {valueType: NUMERIC, defaultValue: 2, unit: board, type: NON_RENEWABLE, trackable: true, linkedFeatures: [boards]}
  calls: {valueType: NUMERIC, defaultValue: .inf, unit: call, type: RENEWABLE, period: {value: 1, unit: day}}
plans:
  FREE: {price: 0, features: null}
  PRO: {description: For teams, price: "#base * #mult", unit: user/month, features: {pay: {value: [CARD, GATEWAY]}}, usageLimits: {maxBoards: {value: 20}}}
  ENTERPRISE: {price: Contact Sales, private: true, features: null}
addOns:
  extraBoards: {price: "5", availableFor: [PRO], usageLimitsExtensions: {maxBoards: {value: 10}}}
`;

const MAPS = {
  features: {
    boards: {
      name: "boards",
      description: "Boards",
      valueType: "BOOLEAN",
      defaultValue: true,
      type: "DOMAIN",
      pricingUrls: [],
      expression:
        "pricingContext['features']['boards'] && subscriptionContext['maxBoards'] < pricingContext['usageLimits']['maxBoards']",
      render: "AUTO",
      tag: "Core",
    },
    pay: { name: "pay", valueType: "TEXT", defaultValue: ["CARD"], type: "PAYMENT", pricingUrls: [], render: "AUTO" },
  },
  usageLimits: {
    maxBoards: {
      name: "maxBoards",
      valueType: "NUMERIC",
      defaultValue: 2,
      type: "NON_RENEWABLE",
      trackable: true,
      linkedFeatures: ["boards"],
    },
    calls: {
      name: "calls",
      valueType: "NUMERIC",
      defaultValue: 100000000,
      type: "RENEWABLE",
      trackable: false,
      period: { value: 1, unit: "DAY" },
      linkedFeatures: [],
    },
  },
  plans: {
    FREE: {
      name: "FREE",
      price: 0,
      private: false,
      features: { boards: true, pay: ["CARD"] },
      usageLimits: { maxBoards: 2, calls: 100000000 },
    },
    PRO: {
      name: "PRO",
      description: "For teams",
      price: 15,
      private: false,
      features: { boards: true, pay: ["CARD", "GATEWAY"] },
      usageLimits: { maxBoards: 20, calls: 100000000 },
    },
    ENTERPRISE: {
      name: "ENTERPRISE",
      price: "Contact Sales",
      private: true,
      features: { boards: true, pay: ["CARD"] },
      usageLimits: { maxBoards: 2, calls: 100000000 },
    },
  },
  addOns: {
    extraBoards: {
      name: "extraBoards",
      private: false,
      price: 5,
      availableFor: ["PRO"],
      dependsOn: [],
      excludes: [],
      features: {},
      usageLimits: {},
      usageLimitsExtensions: { maxBoards: 10 },
      subscriptionConstraints: { minQuantity: 1, maxQuantity: 100000000, quantityStep: 1 },
    },
  },
};

it("the worked example comes out letter for letter", () => {
  const yamlPath = "/static/pricings/63f74bf8eeed64054274b60d-acme-1.2.0.yaml";
  const place = { organizationId: "63f74bf8eeed64054274b60d", version: "1.2.0", yamlPath };
  expect(JSON.stringify(pricingToWire(accept(UPLOAD), place))).toBe(
    JSON.stringify({
      _organizationId: "63f74bf8eeed64054274b60d",
      yamlPath,
      version: "1.2.0",
      currency: "USD",
      createdAt: "2025-03-01T00:00:00.000Z",
      ...MAPS,
    }),
  );
});

it("a pricing given by address shows the address instead of a file", () => {
  const wire = pricingToWire(accept(UPLOAD), { organizationId: "o", version: "v", url: "https://acme.example/p.yml" });
  expect(wire).toMatchObject({ url: "https://acme.example/p.yml", version: "v" });
  expect(wire).not.toHaveProperty("yamlPath");
});

it("marks the limit that counts members, and no other", () => {
  const pricing = accept(`${UPLOAD}custom: {faregate: {seats: maxBoards}}\n`);
  const { usageLimits } = pricingToWire(pricing, { organizationId: "1", version: "1.2.0" });
  expect(usageLimits).toMatchObject({ maxBoards: { countsMembers: true } });
  expect(usageLimits).not.toHaveProperty("calls.countsMembers");
});
