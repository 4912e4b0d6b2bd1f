import { type Browser, type BrowserContext, chromium } from "playwright-core";

/** A browser as one test file uses it. Each page has a context of its own: cookies, cache and storage. */
export type TestBrowser = Pick<Browser, "newContext" | "newPage" | "close">;

let launched: Promise<Browser> | undefined;

/**
 * Opens Debian's Chromium headless, without background requests to other hosts. Default executable: /usr/bin/chromium;
 * `CHROMIUM_PATH` overrides it. Files of one worker share the process, which ends with the worker: `close` closes the pages
 * that were opened here.
 */
export async function launchChromium(): Promise<TestBrowser> {
  launched ??= launch();
  let browser = await launched;
  if (!browser.isConnected()) browser = await (launched = launch());
  const contexts: BrowserContext[] = [];
  return {
    newContext: async (options) => {
      const context = await browser.newContext(options);
      contexts.push(context);
      return context;
    },
    newPage: async (options) => {
      const page = await browser.newPage(options);
      contexts.push(page.context());
      return page;
    },
    close: async () => void (await Promise.all(contexts.map((context) => context.close()))),
  };
}

const launch = (): Promise<Browser> =>
  chromium.launch({
    executablePath: process.env["CHROMIUM_PATH"] ?? "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
