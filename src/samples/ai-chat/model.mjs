import { gateway } from "ai";

/** Any model of the AI SDK stands here; this one is reached through the AI gateway. */
export const model = gateway(process.env.MODEL ?? "openai/gpt-5-mini");
