/* Declaration that `faregate types` writes. */
import "faregate/client";

declare module "faregate/client" {
  interface FeatureIds {
    "gazette-news": true;
    "gazette-archive": true;
  }
  interface LimitUnits {
    "gazette-credits": "page" | "picture";
  }
}
