import { act, Component, type ReactNode, Suspense, useEffect } from "react";
import { hydrateRoot } from "react-dom/client";
import { renderToPipeableStream } from "react-dom/server";
import { Writable } from "node:stream";
import { beforeEach, describe, expect, test, vi } from "vitest";
import {
  FeatureUnavailableError,
  type ServiceConfiguration,
  ServiceProvider,
  type TokenService,
  useSuspenseFeature,
  useTokenService,
} from "../../src/react/react.ts";
import { inSeconds, mount, settle, token } from "./harness.tsx";

/* Source: contract clients §3.3 "Suspense, opt-in only". */

const OFFLINE: ServiceConfiguration = { allowConnectionWithService: false };
let tokens: TokenService;
let renders: string[];
let caught: unknown[];

class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };
  static getDerivedStateFromError(error: unknown) {
    return { error };
  }
  override componentDidCatch(error: unknown) {
    caught.push(error);
  }
  override render() {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return error instanceof FeatureUnavailableError ? `ERROR ${error.featureId} ${error.reason}` : "OTHER ERROR";
  }
}

function Value({ id }: { id: string }) {
  const { status, limit } = useSuspenseFeature(id);
  renders.push(status);
  return `${status}${limit === null ? "" : `:${String(limit)}`} `;
}

function Grab({ children }: { children?: () => void }) {
  const service = useTokenService();
  useEffect(() => {
    tokens = service;
    children?.();
  }, [service, children]);
  return null;
}

const page = (config: ServiceConfiguration, ids = ["zoom-meetings"], beside: ReactNode = null) => (
  <ServiceProvider config={{ ...OFFLINE, ...config }}>
    <Grab />
    {beside}
    <Boundary>
      <Suspense fallback="WAIT">
        {ids.map((id) => (
          <Value key={id} id={id} />
        ))}
      </Suspense>
    </Boundary>
  </ServiceProvider>
);

/** A token source that answers when told. */
function source() {
  const calls: { resolve: (token: string) => void; reject: (error: Error) => void }[] = [];
  return { calls, tokenSource: () => new Promise<string>((resolve, reject) => calls.push({ resolve, reject })) };
}
const eventually = async (check: () => void) => {
  for (let n = 0; n < 100; n += 1) {
    try {
      return check();
    } catch {
      await settle(10);
    }
  }
  check();
};
/** React prints what error boundaries catch. */
const quietly = async <T,>(work: () => Promise<T>): Promise<T> => {
  const quiet = vi.spyOn(console, "error").mockReturnValue();
  const prevent = (event: ErrorEvent) => event.preventDefault();
  window.addEventListener("error", prevent);
  try {
    return await work();
  } finally {
    window.removeEventListener("error", prevent);
    quiet.mockRestore();
  }
};

beforeEach(() => {
  renders = [];
  caught = [];
});

describe.each([{ strict: false }, { strict: true }])("useSuspenseFeature, StrictMode $strict", ({ strict }) => {
  test("with a token it answers at once, follows updates without waiting, and has the figures", async () => {
    const initialToken = token({ "zoom-meetings": { eval: true, limit: 3 } });
    const mounted = await mount(page({ initialToken }), { strict });
    expect(mounted.text()).toBe("on:3 ");
    const seen: string[] = [];
    const observer = new MutationObserver(() => seen.push(document.body.textContent));
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
    await act(async () => tokens.update(token({ "zoom-meetings": false })));
    observer.disconnect();
    expect(mounted.text()).toBe("off ");
    expect(seen.filter((text) => text.includes("WAIT"))).toEqual([]);
  });

  test("it waits for the first token, all features together, with one request", async () => {
    const { calls, tokenSource } = source();
    const mounted = await mount(page({ tokenSource }, ["zoom-a", "zoom-b", "zoom-c"]), { strict });
    expect(mounted.text()).toBe("WAIT");
    await eventually(() => expect(calls).toHaveLength(1));
    await settle(50);
    expect([mounted.text(), renders]).toEqual(["WAIT", []]);
    await act(async () => calls[0]?.resolve(token({ "zoom-a": true, "zoom-b": false, "zoom-c": true })));
    await eventually(() => expect(mounted.text()).toBe("on off on "));
    expect(calls).toHaveLength(1);
    expect(caught).toEqual([]);
  });

  test("what is asked for in an effect outside of the boundary is waited for", async () => {
    const ask = () => tokens.setLoading(true);
    const mounted = await mount(page({}, ["zoom-meetings"], <Grab>{ask}</Grab>), { strict });
    await settle(20);
    expect(mounted.text()).toBe("WAIT");
    await act(async () => tokens.update(token({ "zoom-meetings": true })));
    await eventually(() => expect(mounted.text()).toBe("on "));
  });

  test("without a token that anybody asked for, it goes to the error boundary and not on waiting", async () => {
    await quietly(async () => {
      const mounted = await mount(page({}), { strict });
      await eventually(() => expect(mounted.text()).toBe("ERROR zoom-meetings no-token"));
    });
    expect(renders).toEqual([]);
  });

  test("a request that fails goes to the error boundary", async () => {
    const { calls, tokenSource } = source();
    await quietly(async () => {
      const mounted = await mount(page({ tokenSource }), { strict });
      await eventually(() => expect(calls).toHaveLength(1));
      await act(async () => calls[0]?.reject(new Error("no session")));
      await eventually(() => expect(mounted.text()).toBe("ERROR zoom-meetings no-token"));
    });
  });

  test.each([
    { reason: "not-found", id: "zoom-other", initialToken: token({ "zoom-meetings": true }) },
    { reason: "invalid-id", id: "meetings", initialToken: token({}) },
    { reason: "invalid-id", id: "meetings", initialToken: undefined },
    { reason: "expired", id: "zoom-meetings", initialToken: token({ "zoom-meetings": true }, { exp: inSeconds(-5) }) },
  ])(
    "an id or token that has no answer goes to the error boundary as $reason",
    async ({ reason, id, initialToken }) => {
      await quietly(async () => {
        const mounted = await mount(page({ initialToken }, [id]), { strict });
        await eventually(() => expect(mounted.text()).toBe(`ERROR ${id} ${reason}`));
      });
    },
  );

  test("another user's token is waited for again; a refresh of the same is not", async () => {
    const mounted = await mount(page({ initialToken: token({ "zoom-meetings": true }) }), { strict });
    await act(async () => tokens.setLoading(true));
    expect(mounted.text()).toBe("on ");
    await act(async () => tokens.setUser("bob"));
    expect(mounted.text()).toContain("WAIT");
    await act(async () => tokens.update(token({ "zoom-meetings": false })));
    await eventually(() => expect(mounted.text()).toBe("off "));
  });

  test("a provider that goes away while it is waited for leaves nothing behind", async () => {
    const add = vi.spyOn(window, "addEventListener");
    const remove = vi.spyOn(window, "removeEventListener");
    const { calls, tokenSource } = source();
    const mounted = await mount(page({ tokenSource }), { strict });
    await eventually(() => expect(calls).toHaveLength(1));
    await mounted.unmount();
    calls[0]?.resolve(token({ "zoom-meetings": true }));
    await settle(50);
    const count = (spy: typeof add | typeof remove) => spy.mock.calls.filter(([type]) => type === "pageshow").length;
    expect(count(add)).toBeGreaterThan(0);
    expect(count(remove)).toBe(count(add));
    add.mockRestore();
    remove.mockRestore();
  });
});

describe("on the server", () => {
  /** Returns the complete HTML that a server without a DOM sends. */
  const stream = async (node: ReactNode, errors: unknown[] = []) => {
    const { document, window } = globalThis;
    vi.stubGlobal("document", undefined);
    vi.stubGlobal("window", undefined);
    try {
      let html = "";
      await new Promise<void>((done, fail) => {
        const sink = new Writable({
          write(chunk, _encoding, next) {
            html += String(chunk);
            next();
          },
        });
        sink.once("finish", done);
        const { pipe } = renderToPipeableStream(node, {
          onAllReady: () => pipe(sink),
          onShellError: fail,
          onError: (error) => void errors.push(error),
        });
      });
      return html;
    } finally {
      vi.stubGlobal("document", document);
      vi.stubGlobal("window", window);
    }
  };
  const place = (html: string) => {
    const element = document.body.appendChild(document.createElement("div"));
    element.innerHTML = html;
    return element;
  };

  test("an initial token is the answer in the HTML, and in the browser without a complaint", async () => {
    const node = page({ initialToken: token({ "zoom-meetings": true }) });
    const html = await stream(node);
    expect(html).toContain("on ");
    expect(html).not.toContain("WAIT");
    const complaints = vi.spyOn(console, "error");
    const element = place(html);
    const root = await act(async () =>
      hydrateRoot(element, node, { onRecoverableError: (error) => void console.error(error) }),
    );
    expect(element.textContent).toBe("on ");
    // Server and browser are one process here, and share the context.
    const others = complaints.mock.calls.filter(([text]) => !/multiple renderers/.test(String(text)));
    complaints.mockRestore();
    expect(others).toEqual([]);
    await act(async () => root.unmount());
  });

  test("without one the stream ends with the fallback, and the browser goes on", async () => {
    const { calls, tokenSource } = source();
    const node = page({ tokenSource });
    const errors: unknown[] = [];
    // Server and browser are one process here, and share the context.
    const quiet = vi.spyOn(console, "error").mockReturnValue();
    const html = await stream(node, errors);
    expect(html).toContain("WAIT");
    expect(errors).toMatchObject([{ name: "FeatureUnavailableError" }]);
    const element = place(html);
    const root = await act(async () => hydrateRoot(element, node, { onRecoverableError: () => {} }));
    await eventually(() => expect(calls).toHaveLength(1));
    expect(element.textContent).toBe("WAIT");
    await act(async () => calls[0]?.resolve(token({ "zoom-meetings": true })));
    await eventually(() => expect(element.textContent).toBe("on "));
    await act(async () => root.unmount());
    quiet.mockRestore();
  });
});
