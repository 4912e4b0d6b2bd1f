/** A small pricing that the server accepts: the example of every upload. */
export const PRICING_EXAMPLE = `saasName: Tasker
syntaxVersion: "3.0"
version: "1.0.0"
createdAt: "2025-03-01"
currency: EUR
features:
  board:
    description: Boards with tasks
    valueType: BOOLEAN
    defaultValue: true
    type: DOMAIN
    expression: pricingContext['features']['board'] && subscriptionContext['maxTasks'] < pricingContext['usageLimits']['maxTasks']
usageLimits:
  maxTasks:
    valueType: NUMERIC
    defaultValue: 20
    unit: task
    type: RENEWABLE
    period:
      value: 1
      unit: MONTH
    linkedFeatures:
      - board
plans:
  FREE:
    price: 0
    unit: user/month
    features: null
  PRO:
    price: 6
    unit: user/month
    features: null
    usageLimits:
      maxTasks:
        value: 200
`;

/** Expectations that {@link PRICING_EXAMPLE} meets. */
export const EXPECTATIONS_EXAMPLE = `expectations:
  - name: FREE has boards until 20 tasks are used
    plan: FREE
    usage: { maxTasks: 19 }
    features: { board: true }
`;
