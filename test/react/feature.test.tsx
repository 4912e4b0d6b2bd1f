import { act, lazy, StrictMode, Suspense, useEffect, useState, version } from "react";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  Default,
  ErrorFallback,
  Feature,
  Loading,
  On,
  ServiceProvider,
  type TokenService,
  useFeature,
  usePricingTokenPayload,
  useTokenService,
} from "../../src/react/react.ts";
import { inSeconds, mount, rawToken, settle, Shown, thrownBy, token } from "./harness.tsx";

/* Source: contract clients §1.5 (rows 3, 4, 13, 14: connection.test.tsx; 16, 17: ssr.test.tsx) and §1.6. */

const OFFLINE = { allowConnectionWithService: false };
let tokens: TokenService;

function Grab() {
  const service = useTokenService();
  useEffect(() => {
    tokens = service;
  }, [service]);
  return null;
}

function Page({ id }: { id: string }) {
  return (
    <ServiceProvider config={{ ...OFFLINE }}>
      <Grab />
      <Shown id={id} />
    </ServiceProvider>
  );
}

const update = (text: string) => act(async () => tokens.update(text));

afterEach(() => vi.useRealTimers());

test("the suite runs on the React of its project", ({ task }) => {
  expect(`react-${version.split(".")[0]}`).toBe(task.file.projectName);
});

describe.each([{ strict: false }, { strict: true }])("the state table, StrictMode $strict", ({ strict }) => {
  test.each([
    { row: 1, what: "an id without a dash", id: "meetings" },
    { row: 1, what: "an empty id", id: "" },
    { row: 1, what: "an id that is no string", id: 7 as unknown as string },
  ])("row $row: $what shows the error with and without a token", async ({ id }) => {
    const page = await mount(<Page id={id} />, { strict });
    expect(page.text()).toBe("ERROR");
    await update(token({ meetings: true, "": true, "7": true }));
    expect(page.text()).toBe("ERROR");
    expect(tokens.getPayload()).not.toBeNull();
  });

  test("row 2: without a token and a request it shows the error, after a first commit that loads", async () => {
    const seen: string[] = [];
    function Probe() {
      seen.push(useFeature("zoom-meetings").status);
      return null;
    }
    const page = await mount(
      <ServiceProvider config={OFFLINE}>
        <Grab />
        <Probe />
        <Shown id="zoom-meetings" />
      </ServiceProvider>,
      { strict },
    );
    expect(page.text()).toBe("ERROR");
    expect([...new Set(seen)]).toEqual(["loading", "error"]);
    expect(tokens.evaluateFeature("zoom-meetings")).toBeNull();
    expect(tokens.getPayload()).toBeNull();
  });

  test.each([
    { row: 5, what: "eval true", entry: { eval: true }, text: "ON", evaluation: true },
    { row: 6, what: "eval false", entry: { eval: false }, text: "DEFAULT", evaluation: false },
    {
      row: 6,
      what: "eval false with an error",
      entry: { eval: false, error: { code: "X", message: "x" } },
      text: "DEFAULT",
      evaluation: false,
    },
    { row: 7, what: "an id the token lacks", entry: undefined, text: "ERROR", evaluation: null },
    { row: 8, what: "R15: an eval that is text", entry: { eval: "true" }, text: "ERROR", evaluation: null },
    { row: 8, what: "an eval that is 1", entry: { eval: 1 }, text: "ERROR", evaluation: null },
    { row: 8, what: "an entry that is true", entry: true, text: "ERROR", evaluation: null },
    { row: 8, what: "an entry that is null", entry: null, text: "ERROR", evaluation: null },
  ])("row $row: $what shows $text", async ({ entry, text, evaluation }) => {
    const page = await mount(<Page id="zoom-meetings" />, { strict });
    await update(rawToken({ exp: inSeconds(60), features: { "zoom-meetings": entry } }));
    expect(page.text()).toBe(text);
    expect(tokens.evaluateFeature("zoom-meetings")).toBe(evaluation);
    expect(tokens.getPayload()).toBeTypeOf("object");
  });

  test("row 7: inherited names are no features", async () => {
    const page = await mount(
      <ServiceProvider config={OFFLINE}>
        <Grab />
        <Shown id="constructor" />
        <Shown id="__proto__-x" />
      </ServiceProvider>,
      { strict },
    );
    await update(token({ "zoom-meetings": true }));
    expect(page.text()).toBe("ERRORERROR");
    expect(tokens.evaluateFeature("constructor")).toBeNull();
  });

  test("row 9: a token that has already expired shows the error", async () => {
    const page = await mount(<Page id="zoom-meetings" />, { strict });
    await update(token({ "zoom-meetings": true }, { exp: inSeconds(0) }));
    expect(page.text()).toBe("ERROR");
    expect(tokens.evaluateFeature("zoom-meetings")).toBeNull();
    expect(tokens.getPayload()).toBeNull();
  });

  test("row 10: when the token expires the feature leaves, without any render from outside", async () => {
    vi.useFakeTimers({ now: 1_800_000_000_000 });
    const page = await mount(<Page id="zoom-meetings" />, { strict });
    await update(token({ "zoom-meetings": true }, { exp: inSeconds(30) }));
    await act(async () => vi.advanceTimersByTime(29_990));
    expect(page.text()).toBe("ON");
    await act(async () => vi.advanceTimersByTime(1000));
    expect(page.text()).toBe("ERROR");
    expect(tokens.getPayload()).toBeNull();
  });

  test("row 11: an update from on to off shows the default without a commit that loads", async () => {
    const seen: string[] = [];
    function Probe() {
      const { status } = useFeature("zoom-meetings");
      useEffect(() => {
        seen.push(status);
      }, [status]);
      return null;
    }
    const page = await mount(
      <ServiceProvider config={OFFLINE}>
        <Grab />
        <Probe />
        <Shown id="zoom-meetings" />
      </ServiceProvider>,
      { strict },
    );
    await update(token({ "zoom-meetings": true }));
    const before = tokens.getPayload();
    seen.length = 0;
    await update(token({ "zoom-meetings": false }));
    expect(page.text()).toBe("DEFAULT");
    expect(seen).toEqual(["off"]);
    expect(tokens.getPayload()).not.toBe(before);
  });

  test("row 12: a malformed token changes nothing", async () => {
    const page = await mount(<Page id="zoom-meetings" />, { strict });
    await update(token({ "zoom-meetings": true }));
    const before = tokens.getPayload();
    expect(() => tokens.update("nonsense")).toThrow("Invalid pricing token");
    await settle();
    expect(page.text()).toBe("ON");
    expect(tokens.getPayload()).toBe(before);
  });

  test("row 15: another id shows its result in the same commit", async () => {
    const commits: string[] = [];
    function Probe({ id }: { id: string }) {
      const { status } = useFeature(id);
      useEffect(() => {
        commits.push(`${id} ${status}`);
      });
      return <Shown id={id} />;
    }
    const page = (id: string) => (
      <ServiceProvider config={OFFLINE}>
        <Grab />
        <Probe id={id} />
      </ServiceProvider>
    );
    const mounted = await mount(page("zoom-meetings"), { strict });
    await update(token({ "zoom-meetings": true, "zoom-chat": false }));
    commits.length = 0;
    await mounted.render(page("zoom-chat"));
    expect(mounted.text()).toBe("DEFAULT");
    expect(commits).toEqual(["zoom-chat off"]);
  });

  test("row 18: outside a provider it throws", async () => {
    const page = <Shown id="zoom-meetings" />;
    expect(await thrownBy(strict ? <StrictMode>{page}</StrictMode> : page)).toMatchObject({
      message: "useTokenService must be used within a ServiceProvider",
    });
  });
});

describe("the sub-components", () => {
  const shown = async (feature: React.ReactNode, on = true) => {
    const page = await mount(
      <ServiceProvider config={{ ...OFFLINE, initialToken: token({ "zoom-meetings": on }) }}>
        {feature}
      </ServiceProvider>,
    );
    return page;
  };
  const warned = () => {
    const warn = vi.spyOn(console, "warn").mockReturnValue();
    return { all: () => warn.mock.calls.map(([text]) => String(text)), end: () => warn.mockRestore() };
  };

  test("come in any order, and as members of Feature", async () => {
    const page = await shown(
      <Feature id="zoom-meetings">
        <Feature.ErrorFallback>error</Feature.ErrorFallback>
        <Feature.Default>default</Feature.Default>
        <Feature.Loading>loading</Feature.Loading>
        <Feature.On>on</Feature.On>
      </Feature>,
    );
    expect(page.html()).toBe("on");
  });

  test("may be missing; then nothing shows", async () => {
    const page = await shown(
      <Feature id="zoom-meetings">
        <Default>default</Default>
        <Loading>loading</Loading>
        <ErrorFallback>error</ErrorFallback>
      </Feature>,
    );
    expect(page.html()).toBe("");
  });

  test("given twice show the first, with one hint", async () => {
    const warnings = warned();
    const page = await shown(
      <Feature id="zoom-meetings">
        <On>first</On>
        <On>second</On>
      </Feature>,
    );
    expect(page.html()).toBe("first");
    expect(warnings.all().filter((text) => text.includes("twice"))).toHaveLength(1);
    warnings.end();
  });

  test("R28: are found in fragments and lists", async () => {
    const page = await shown(
      <Feature id="zoom-meetings">
        <>
          {[<Default key="default">default</Default>]}
          <>
            <On>on</On>
          </>
        </>
      </Feature>,
    );
    expect(page.html()).toBe("on");
  });

  test("are found behind a lazy reference, as a server component's are", async () => {
    const LazyOn = lazy(async () => ({ default: On }));
    const page = await shown(
      <Suspense fallback="suspended">
        <Feature id="zoom-meetings">
          <LazyOn>on</LazyOn>
        </Feature>
      </Suspense>,
    );
    await settle();
    expect(page.html()).toBe("on");
  });

  test("R28: in a component of one's own are not recognised, with a hint; other children are dropped", async () => {
    const warnings = warned();
    const Own = () => <On>on</On>;
    const page = await shown(
      <Feature id="zoom-meetings">
        <Own />
        text
        <b>bold</b>
      </Feature>,
    );
    expect(page.html()).toBe("");
    expect(warnings.all().some((text) => text.includes("wrapped ones are not recognised"))).toBe(true);
    warnings.end();
  });

  test("outside a Feature always show, with a hint", async () => {
    const warnings = warned();
    const page = await mount(<On>always</On>);
    expect(page.html()).toBe("always");
    expect(warnings.all().some((text) => text.includes("gates nothing"))).toBe(true);
    warnings.end();
  });

  test("lose their state on a switch and keep it on an equal result", async () => {
    let mounts = 0;
    function Counter() {
      const [count] = useState(() => (mounts += 1));
      return <i>{count}</i>;
    }
    const page = await mount(
      <ServiceProvider config={{ ...OFFLINE }}>
        <Grab />
        <Feature id="zoom-meetings">
          <On>
            <Counter />
          </On>
          <Default>
            <Counter />
          </Default>
        </Feature>
      </ServiceProvider>,
    );
    await update(token({ "zoom-meetings": true }));
    expect(page.html()).toBe("<i>1</i>");
    await update(token({ "zoom-meetings": { eval: true, used: 3, limit: 9 } }));
    expect(page.html()).toBe("<i>1</i>");
    await update(token({ "zoom-meetings": false }));
    expect(page.html()).toBe("<i>2</i>");
    await update(token({ "zoom-meetings": true }));
    expect(page.html()).toBe("<i>3</i>");
  });

  test("R14, R23: an update renders only those whose own result changed, once", async () => {
    const renders = { a: 0, b: 0 };
    function A() {
      useFeature("zoom-a");
      renders.a += 1;
      return null;
    }
    function B() {
      useFeature("zoom-b");
      renders.b += 1;
      return null;
    }
    await mount(
      <ServiceProvider
        config={{ ...OFFLINE, initialToken: token({ "zoom-a": true, "zoom-b": { used: 1, limit: 2 } }) }}
      >
        <Grab />
        <A />
        <B />
      </ServiceProvider>,
    );
    renders.a = renders.b = 0;
    await update(token({ "zoom-a": true, "zoom-b": { used: 2, limit: 2 } }));
    expect(renders).toEqual({ a: 0, b: 1 });
  });
});

describe("usePricingTokenPayload", () => {
  test("gives the same payload until the next token, and null after clearing and expiry", async () => {
    vi.useFakeTimers({ now: 1_800_000_000_000 });
    const seen: unknown[] = [];
    function Probe() {
      seen.push(usePricingTokenPayload<{ sub: string }>());
      return null;
    }
    const page = (
      <ServiceProvider config={OFFLINE}>
        <Grab />
        <Probe />
      </ServiceProvider>
    );
    const mounted = await mount(page);
    await update(token({}, { sub: "one", exp: inSeconds(60) }));
    const first = seen.at(-1);
    await mounted.render(
      <ServiceProvider config={{ ...OFFLINE }}>
        <Grab />
        <Probe />
      </ServiceProvider>,
    );
    expect(seen.at(-1)).toBe(first);
    expect(first).toMatchObject({ sub: "one" });
    await act(async () => vi.advanceTimersByTime(60_000));
    expect(seen.at(-1)).toBeNull();
    await update(token({}, { sub: "two" }));
    expect(seen.at(-1)).toMatchObject({ sub: "two" });
    await act(async () => tokens.clear());
    expect(seen.at(-1)).toBeNull();
  });
});
