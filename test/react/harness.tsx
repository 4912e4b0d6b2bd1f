import { act, type ReactElement, type ReactNode, StrictMode } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, vi } from "vitest";
import { createTestToken, type TestFeature } from "../../src/client/front/test-token.ts";
import { Default, ErrorFallback, Feature, Loading, On } from "../../src/react/react.ts";

Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true });

const roots = new Set<Root>();

afterEach(async () => {
  for (const root of roots) await act(async () => root.unmount());
  roots.clear();
  document.body.replaceChildren();
});

/** A mounted tree. */
export interface Mounted {
  text(): string;
  html(): string;
  render(node: ReactNode): Promise<void>;
  /** Renders whenever React does, outside of any `act`. */
  schedule(node: ReactNode): void;
  unmount(): Promise<void>;
}

/** Renders into a fresh element of the page; unmounted after the test. */
export async function mount(node: ReactNode, options: { strict?: boolean } = {}): Promise<Mounted> {
  const place = document.body.appendChild(document.createElement("div"));
  const root = createRoot(place);
  roots.add(root);
  const wrapped = (inner: ReactNode) => (options.strict === true ? <StrictMode>{inner}</StrictMode> : inner);
  const mounted: Mounted = {
    text: () => place.textContent,
    html: () => place.innerHTML,
    render: (next) => act(async () => root.render(wrapped(next))),
    schedule: (next) => root.render(wrapped(next)),
    unmount: async () => {
      roots.delete(root);
      await act(async () => root.unmount());
    },
  };
  await mounted.render(node);
  return mounted;
}

/** A Feature that shows its state's name. */
export function Shown({ id }: { id: string }): ReactElement {
  return (
    <Feature id={id}>
      <On>ON</On>
      <Default>DEFAULT</Default>
      <Loading>LOADING</Loading>
      <ErrorFallback>ERROR</ErrorFallback>
    </Feature>
  );
}

/** A token of these features. */
export function token(features: Record<string, TestFeature>, claims: { exp?: number; sub?: string } = {}): string {
  return createTestToken({ ...claims, features });
}

/** A token whose payload is exactly this value. */
export function rawToken(payload: unknown): string {
  return `header.${Buffer.from(JSON.stringify(payload)).toString("base64url")}.signature`;
}

/** Seconds since 1970, shifted. */
export function inSeconds(shift: number): number {
  return Math.floor(Date.now() / 1000) + shift;
}

/** Lets timers of no delay and what follows them happen. */
export function settle(milliseconds = 5): Promise<void> {
  return act(() => new Promise<void>((done) => setTimeout(done, milliseconds)));
}

/** Returns the error that rendering throws. */
export async function thrownBy(node: ReactNode): Promise<unknown> {
  const quiet = vi.spyOn(console, "error").mockReturnValue();
  const prevent = (event: ErrorEvent) => event.preventDefault();
  window.addEventListener("error", prevent);
  try {
    await mount(node);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    window.removeEventListener("error", prevent);
    quiet.mockRestore();
  }
}
