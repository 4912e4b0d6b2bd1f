import { type Browser, chromium } from "playwright-core";

/** Debian's Chromium, headless, asking nobody but the pages' own server. `CHROMIUM_PATH` names another one. */
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
