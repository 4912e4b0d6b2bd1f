import { type Browser, chromium } from "playwright-core";

/**
 * Launches Debian's Chromium headless, without background requests to other hosts. Default executable:
 * /usr/bin/chromium; `CHROMIUM_PATH` overrides it.
 */
export async function launchChromium(): Promise<Browser> {
  return chromium.launch({
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
}
