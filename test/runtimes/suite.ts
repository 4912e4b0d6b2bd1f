/*
 * Assertions for every runtime, made through a fetch function: no framework, no runtime API. Areas run in this order
 * and share the state in World.
 */

import { heavyPricing } from "../support/heavy-pricings.ts";
import { TOKEN_AREAS } from "./token-areas.ts";
import {
  type Answer,
  answerOf,
  type Area,
  ask,
  equal,
  JSON_TYPE,
  matches,
  PRICING,
  type Service,
  uploadFile,
  type World,
} from "./world.ts";

/** The areas in the order of the table in src/docs/runtimes.md. */
export const AREAS: Readonly<Record<string, Area>> = {
  "sign in": async (world) => {
    const signIn = (username: string, password: string) =>
      ask(world, "POST", "/users/authenticate", { body: { username, password } });
    const { username, password } = world.admin;
    const answer = await signIn(username, password);
    equal(answer.status, 200, "the right password");
    matches(answer.at("apiKey"), /^usr_[0-9a-f]{64}$/, "a user key");
    world.adminKey = String(answer.at("apiKey"));
    // More slow hashes at once than the server computes concurrently.
    const wrong = await Promise.all(Array.from({ length: 4 }, (_, i) => signIn(username, `wrong-${i}`)));
    for (const { status } of wrong) equal(status, 401, "a wrong password");
    equal((await signIn("nobody-of-that-name", password)).status, 401, "an unknown name");
    const made = await ask(world, "POST", "/users", { body: { username: "ada", password: "analytical" } });
    equal([made.status, made.at("role")], [201, "USER"], "signing up");
    equal((await signIn("ada", "analytical")).status, 200, "the new user's password");
    equal((await ask(world, "GET", "/users/ada", { key: world.adminKey })).at("username"), "ada", "reading a user");
  },

  organizations: async (world) => {
    const path = "/organizations";
    const made = await ask(world, "POST", path, {
      key: world.adminKey,
      body: { name: "Zażółć & Sons", owner: world.admin.username },
    });
    equal([made.status, made.at("name")], [201, "Zażółć & Sons"], "an organization, its name as it was given");
    world.organizationId = String(made.at("id"));
    world.key = String(made.at("apiKeys/0/key"));
    const own = `${path}/${world.organizationId}`;
    const body = { scope: "EVALUATION" };
    const withKey = await ask(world, "POST", `${own}/api-keys`, { key: world.adminKey, body });
    world.evaluationKey = String(withKey.at("apiKeys/1/key"));
    matches(world.evaluationKey, /^org_/, "a key of the organization");
    const member = { username: "ada", role: "EVALUATOR" };
    equal((await ask(world, "POST", `${own}/members`, { key: world.adminKey, body: member })).status, 200, "a member");
    const shown = await ask(world, "GET", own, { key: world.adminKey });
    equal([shown.status, shown.at("members/0/username")], [200, "ada"], "the organization with its member");
    const listed = await ask(world, "GET", `${path}?limit=1`, { key: world.adminKey });
    equal(listed.status, 200, "the list of organizations");
  },

  "upload by multipart": async (world) => {
    const text = PRICING("Tasker");
    const made = await uploadFile(world, "/services", text);
    equal([made.status, made.at("name")], [201, "Tasker"], "a service");
    const read = await ask(world, "GET", "/services/Tasker/pricings/1.0.0", { key: world.key });
    equal(read.at("features/sla/defaultValue"), "99 %, zażółć", "the pricing");
    const kept = await world.fetch(String(read.at("yamlPath")));
    equal([kept.status, await kept.text()], [200, text], "the text, byte for byte");
    const broken = await uploadFile(world, "/services", "saasName: [");
    equal([broken.status, String(broken.at("error")).startsWith("Pricing parsing error")], [400, true], "broken YAML");
    const elsewhere = await uploadFile(world, "/services", text, "another-field");
    equal([elsewhere.status, elsewhere.at("error")], [400, "Unexpected field"], "a file in another field");
    const headers = { "x-api-key": world.key, "content-type": "multipart/form-data; boundary=x" };
    const cut = await world.fetch("/api/v1/services", { method: "POST", headers, body: "--x\r\nContent-Disp" });
    equal(cut.status, 400, "a body that ends too early");
  },

  "upload by URL": async (world) => {
    const upload = (pricing: string) => ask(world, "POST", "/services", { key: world.key, body: { pricing } });
    const url = world.publish(PRICING("Remote"));
    const made = await upload(url);
    equal([made.status, made.at("activePricings")], [201, { "1.0.0": { url } }], "a pricing from an address");
    const redirected = await upload(world.redirect(world.publish(PRICING("Redirected"))));
    equal([redirected.status, redirected.at("name")], [201, "Redirected"], "a pricing behind a redirect");
    for (const address of ["https://127.0.0.1:1/a.yml", "https://[::1]:1/a.yml", "https://localhost:1/a.yml"]) {
      const refused = await upload(address);
      equal(refused.status, 400, address);
      matches(refused.at("error"), /^Invalid URL: \S+ is not an address of the public internet$/, address);
    }
    const hidden = await upload(world.redirect("https://169.254.169.254/latest/meta-data"));
    matches(hidden.at("error"), /is not an address of the public internet$/, "a redirect to a private address");
    equal((await upload("file:///etc/passwd")).status, 400, "another protocol");
    equal((await upload("http://example.com/a.yml")).status, 400, "http elsewhere");
    const long = await upload(world.publish(`# ${"x".repeat(3 * 1024 * 1024)}`));
    equal(long.status, 400, "more than a pricing may have");
  },

  contracts: async (world) => {
    const contract = (userId: string, plan: string) =>
      ask(world, "POST", "/contracts", {
        key: world.key,
        body: {
          userContact: { userId, username: userId },
          contractedServices: { tasker: "1.0.0" },
          subscriptionPlans: { tasker: plan },
          subscriptionAddOns: {},
        },
      });
    for (const userId of ["ada", "grace", "once"]) equal((await contract(userId, "FREE")).status, 201, userId);
    equal((await contract("ada", "FREE")).status >= 400, true, "a second contract of the same user");
    equal((await contract("linus", "NONE")).status, 400, "a plan that does not exist");
    const novated = await ask(world, "PUT", "/contracts/grace", {
      key: world.key,
      body: { contractedServices: { tasker: "1.0.0" }, subscriptionPlans: { tasker: "PRO" }, subscriptionAddOns: {} },
    });
    equal([novated.status, novated.at("subscriptionPlans")], [200, { tasker: "PRO" }], "another plan");
    const filters = encodeURIComponent(JSON.stringify({ plans: { tasker: ["PRO"] } }));
    const found = await ask(world, "GET", `/contracts?filters=${filters}`, { key: world.key });
    equal([found.status, found.at("length"), found.at("0/userContact/userId")], [200, 1, "grace"], "filters");
    equal((await ask(world, "GET", "/contracts/nobody", { key: world.key })).status, 404, "an unknown user");
  },

  evaluation: async (world) => {
    const key = world.evaluationKey;
    const all = await ask(world, "POST", "/features/ada", { key });
    equal([all.status, all.body], [200, { "tasker-board": true, "tasker-sla": false }], "all features");
    const one = await ask(world, "POST", "/features/grace/tasker-board", { key });
    const expected = { eval: true, limit: { "tasker-maxTasks": 100 }, used: { "tasker-maxTasks": 0 }, error: null };
    equal(one.body, expected, "one feature under the new plan");
    equal((await ask(world, "POST", "/features/nobody", { key })).status, 404, "an unknown user");
    const unknown = await ask(world, "POST", "/features/ada/tasker-none", { key });
    equal([unknown.status, unknown.at("error/code")], [200, "FLAG_NOT_FOUND"], "an unknown feature");
  },

  consumption: async (world) => {
    const consume = (userId: string, amount: number, headers: Record<string, string> = {}, query = "") =>
      ask(world, "POST", `/features/${userId}/tasker-board${query}`, {
        key: world.key,
        headers,
        body: { "tasker-maxTasks": amount },
      });
    const used = async (userId: string) =>
      (await ask(world, "GET", `/contracts/${userId}`, { key: world.key })).at("usageLevels/tasker/maxTasks/consumed");
    const many = await Promise.all(Array.from({ length: 40 }, () => consume("grace", 1)));
    equal(many.filter((each) => each.at("eval") === true).length, 40, "40 at once");
    equal(new Set(many.map((each) => each.at("used/tasker-maxTasks"))).size, 40, "each with a balance of its own");
    equal(await used("grace"), 40, "nothing lost, nothing twice");

    const once = { "idempotency-key": "order-1" };
    const [first, second] = await Promise.all([consume("once", 2, once), consume("once", 2, once)]);
    equal(first.body, second.body, "the same answer, asked twice at once");
    const third = await consume("once", 2, once);
    equal([third.body, third.headers.get("idempotent-replayed")], [first.body, "true"], "and again later");
    equal(await used("once"), 2, "counted once");
    equal((await consume("once", 3, once)).status, 422, "another body under the same key");

    equal((await consume("ada", 6, {}, "?strict=true")).at("eval"), false, "more than the limit, strictly");
    equal(await used("ada"), 0, "which counts nothing");
    equal((await consume("once", 0, {}, "?revert=true")).status, 204, "a revert");
    equal(await used("once"), 0, "takes back what was counted");
  },

  ...TOKEN_AREAS,

  errors: async (world) => {
    const unknownKey = { "x-api-key": `org_${"0".repeat(64)}` };
    const sentences: [Promise<Answer>, number, string][] = [
      [ask(world, "GET", "/contracts/nobody", { key: world.key }), 404, "Contract with userId nobody not found"],
      [ask(world, "GET", "/services", { headers: unknownKey }), 401, "Invalid Organization API Key"],
      [ask(world, "GET", "/users/%E0%A4%A", {}), 400, "INVALID DATA: The path is not valid percent-encoding"],
      [ask(world, "POST", "/contracts", { key: world.key, text: "{" }), 400, "INVALID DATA: Malformed JSON body"],
    ];
    for (const [answering, status, sentence] of sentences) {
      const answer = await answering;
      equal([answer.status, answer.at("error")], [status, sentence], sentence);
      equal(answer.headers.get("content-type"), "application/json; charset=utf-8", "errors are JSON");
    }
    equal((await ask(world, "POST", "/contracts", { key: world.evaluationKey, body: {} })).status, 403, "no right");
    equal((await ask(world, "GET", "/users", {})).status, 401, "no key");
    const traced = await ask(world, "GET", "/healthcheck", { headers: { "x-request-id": "trace-1" } });
    equal(traced.headers.get("x-request-id"), "trace-1", "the request's id comes back");
    matches((await ask(world, "GET", "/healthcheck", {})).headers.get("x-request-id"), /^[\w-]{36}$/, "or is given");
    equal(traced.headers.get("x-content-type-options"), "nosniff", "security headers");
  },

  CORS: async (world) => {
    const preflight = (origin: string) =>
      world.fetch("/api/v1/contracts", {
        method: "OPTIONS",
        headers: {
          origin,
          "access-control-request-method": "POST",
          "access-control-request-headers": "x-api-key,content-type",
        },
      });
    const allowed = await preflight(world.allowedOrigin);
    equal([allowed.status, await allowed.text()], [204, ""], "a preflight");
    equal(allowed.headers.get("access-control-allow-origin"), world.allowedOrigin, "for an allowed origin");
    equal(allowed.headers.get("access-control-allow-headers"), "x-api-key,content-type", "with the headers asked for");
    const foreign = await preflight("https://elsewhere.example");
    equal(foreign.headers.get("access-control-allow-origin"), null, "nothing for a foreign origin");
    const answer = await ask(world, "GET", "/healthcheck", { headers: { origin: world.allowedOrigin } });
    equal(answer.headers.get("access-control-allow-origin"), world.allowedOrigin, "on answers");
    equal(answer.headers.get("access-control-allow-credentials"), "true", "with credentials");
    const refused = await ask(world, "GET", "/users", { headers: { origin: world.allowedOrigin } });
    equal(refused.headers.get("access-control-allow-origin"), world.allowedOrigin, "on errors");
  },

  streaming: async (world) => {
    const stop = new AbortController();
    const open = (after?: string) =>
      world.fetch("/api/v1/events/stream", {
        headers: { "x-api-key": world.key, ...(after === undefined ? {} : { "last-event-id": after }) },
        signal: stop.signal,
      });
    const answer = await open();
    equal(answer.headers.get("content-type"), "text/event-stream; charset=utf-8", "Server-Sent Events");
    const read = reader(answer);
    const position = /^id: (\d+)$/m.exec(await read(/^id: \d+$/m))?.[1];
    await uploadFile(world, "/services/Tasker/pricings", PRICING("Tasker", "2.0.0"));
    matches(await read(/PRICING_CREATED.*\n\n/), /"pricingVersion":"2\.0\.0"/, "an event, while the answer goes on");
    const again = reader(await open(position));
    matches(await again(/PRICING_CREATED.*\n\n/), /"pricingVersion":"2\.0\.0"/, "the same after Last-Event-ID");
    stop.abort();
  },

  "large bodies": async (world) => {
    const post = (path: string, body: BodyInit, headers: Record<string, string> = {}) =>
      world.fetch(path, {
        method: "POST",
        headers: { "x-api-key": world.key, ...headers },
        body,
        duplex: "half",
      } as RequestInit);
    const json = (bytes: number) => `{"x":"${"x".repeat(bytes - 8)}"}`;
    equal((await post("/api/v1/contracts", json(2 * 1024 * 1024), JSON_TYPE)).status, 422, "JSON of 2 MiB is read");
    equal((await post("/api/v1/contracts", json(3 * 1024 * 1024), JSON_TYPE)).status, 413, "JSON of 3 MiB is not");
    const chunk = new TextEncoder().encode("x".repeat(64 * 1024));
    let chunks = 0;
    const endless = new ReadableStream({
      pull: (controller) => {
        chunks += 1;
        if (chunks > 400) controller.close();
        else controller.enqueue(chunk);
      },
    });
    const streamed = await post("/api/v1/contracts", endless, JSON_TYPE)
      .then(async (answer) => (isCutByWrangler(answer.status, await answer.text()) ? "cut off" : answer.status))
      .catch(() => "cut off");
    // A server that has responded may close the connection before the client has sent everything.
    equal(streamed === 413 || streamed === "cut off", true, `a body without a length: ${streamed}`);
    const file = await uploadFile(world, "/services", `# ${"x".repeat(3 * 1024 * 1024)}`);
    equal([file.status, file.at("error")], [413, "File too large"], "a file of 3 MiB");
    equal((await ask(world, "GET", "/healthcheck", {})).status, 200, "and it serves on");
    await serveDuringDiff(world);
  },

  aborts: async (world) => {
    const aborted = async (path: string, init: RequestInit, afterMs: number) => {
      const stop = new AbortController();
      setTimeout(() => stop.abort(), afterMs);
      return world.fetch(path, { ...init, signal: stop.signal }).then(
        async (answer) => void (await answer.text().catch(() => {})),
        () => {},
      );
    };
    const credentials = JSON.stringify({ username: "nobody-again", password: "wrong" });
    const signIn = { method: "POST", headers: JSON_TYPE, body: credentials };
    // Clients abort during slow hashes; their places must be free again afterwards.
    await Promise.all(Array.from({ length: 6 }, (_, i) => aborted("/api/v1/users/authenticate", signIn, 5 + i * 20)));
    const body = new ReadableStream({
      pull: async (controller) => {
        controller.enqueue(new TextEncoder().encode('{"x":"'));
        await new Promise((resolve) => setTimeout(resolve, 50));
      },
    });
    const unfinished = { method: "POST", headers: { "x-api-key": world.key, ...JSON_TYPE }, body, duplex: "half" };
    await aborted("/api/v1/contracts", unfinished as RequestInit, 120);
    const headers = { "x-api-key": world.key, ...JSON_TYPE, "idempotency-key": "aborted" };
    const consume = { method: "POST", headers, body: '{"tasker-maxTasks":1}' };
    for (const afterMs of [1, 3, 10, 30]) await aborted("/api/v1/features/ada/tasker-board", consume, afterMs);
    const answer = await answerOf(await world.fetch("/api/v1/features/ada/tasker-board", consume));
    equal(
      [answer.status, answer.at("used"), answer.at("error")],
      [200, { "tasker-maxTasks": 1 }, null],
      "counted once, however often the caller left",
    );
    equal((await ask(world, "POST", "/users/authenticate", { body: world.admin })).status, 200, "sign in afterwards");
  },

  "tools of agents": async (world) => {
    const send = async (path: string, text: string, more: Record<string, string> = {}) => {
      const headers = { ...JSON_TYPE, accept: "application/json, text/event-stream", "x-api-key": world.key, ...more };
      return answerOf(await world.fetch(path, { method: "POST", headers, body: text }));
    };
    const rpc = (method: string, params: object, path = "/mcp") =>
      send(path, JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }));
    const call = (name: string, given: object) => rpc("tools/call", { name, arguments: given });
    const clientInfo = { name: "suite", version: "1" };
    const begun = await rpc("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
    equal([begun.status, begun.at("result/serverInfo/name")], [200, "faregate"], "the beginning of a session");
    const newest = { "io.modelcontextprotocol/protocolVersion": "2026-07-28" };
    const _meta = {
      ...newest,
      "io.modelcontextprotocol/clientCapabilities": {},
      "io.modelcontextprotocol/clientInfo": clientInfo,
    };
    const discover = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "server/discover", params: { _meta } });
    const discovered = await send("/mcp", discover, {
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "server/discover",
    });
    equal(discovered.status, 200, `the newest protocol: ${JSON.stringify(discovered.body)}`);
    const tools = await rpc("tools/list", {}, `${world.basePath}/mcp`);
    equal(Number(tools.at("result/tools/length")) > 10, true, "tools, also below the sub-path");
    const path = { userId: "grace", featureId: "tasker-board" };
    const explained = await call("evaluateFeature", { ...path, body: { "tasker-maxTasks": 1000 }, strict: true });
    matches(explained.at("result/content/0/text"), /"reason":"LIMIT_REACHED"/, "an explained verdict");
    const draft = await call("lintDraft", { pricing: PRICING("Tasker", "9.0.0") });
    matches(draft.at("result/content/0/text"), /"version":"9.0.0"/, "a checked draft");
    const denied = await call("showContract", { userId: "nobody" });
    equal(denied.at("result/content/0/text"), "Contract with userId nobody not found", "the server's sentence");
    const { body } = await rpc("resources/read", { uri: "faregate://docs/pricing-file.md" });
    matches(JSON.stringify(body), /saasName/, "a guide");
    equal((await send("/mcp", "{")).at("error/code"), -32700, "no JSON");
    equal((await world.fetch("/mcp", { headers: { "x-api-key": world.key } })).status, 405, "no stream");
  },

  "console and documentation": async (world) => {
    const console = await world.fetch(`${world.basePath}/console/`, { headers: { accept: "text/html" } });
    const html = await console.text();
    matches(html, /<base href="\/space\/console\/"/, "the console's page, below the sub-path");
    const script = /src="(?:\.\/)?(assets\/[^"]+\.js)"/.exec(html)?.[1] ?? "no script";
    const loaded = await world.fetch(`/console/${script}`);
    equal([loaded.status, loaded.headers.get("content-type")], [200, "text/javascript; charset=utf-8"], script);
    matches(await loaded.text(), /import|function/, "its script, compressed or not");
    equal((await ask(world, "GET", "/openapi.json", {})).at("info/title"), "Faregate", "the document");
    const page = await world.fetch("/api/v1/docs");
    matches(await page.text(), /^<!doctype html>/, "the page");
    const style = await world.fetch("/api/v1/docs/swagger-ui.css");
    equal([style.status, style.headers.get("content-type")], [200, "text/css; charset=utf-8"], "its style sheet");
    equal((await style.text()).length > 100_000, true, "all of it");
    equal((await world.fetch("/api/v1/docs/index.html")).status, 404, "no other file of that library");
    const refused = await world.fetch("/api/v1/features/nobody");
    const [, help = ""] = /^<(.+)>; rel="help"$/.exec(refused.headers.get("link") ?? "") ?? [];
    const errors = await (await world.fetch(help)).text();
    equal(errors.includes(`id="${help.split("#")[1]}"`), true, "an error leads to its remedy");
    equal((await world.fetch(`${world.basePath}/api/v1/healthcheck/`)).status, 200, "under the sub-path, with a slash");
  },
};

/** Returns a function that runs one area; the areas share one service and one state. */
export function createSuite(service: Service): (area: string) => Promise<void> {
  const world: World = { ...service, adminKey: "", organizationId: "", key: "", evaluationKey: "" };
  return async (name) => {
    const area = AREAS[name];
    if (area === undefined) throw new Error(`there is no area ${name}`);
    await area(world);
  };
}

/** The proxy of `wrangler dev` reports a connection that the Worker closed early as a restart. */
const isCutByWrangler = (status: number, text: string) =>
  status === 503 && text.startsWith("Your worker restarted mid-request");

/** A diff of two small files that takes seconds: other requests are answered meanwhile, and it completes. */
async function serveDuringDiff(world: World): Promise<void> {
  const heavy = { name: "Heavy", features: 40, limits: 5, plans: 6, addOns: 6 };
  equal((await uploadFile(world, "/services", heavyPricing(heavy))).status, 201, "a pricing with many selections");
  let answers = 0;
  // A blocked server gives two answers per diff at most. A busy caller gets few, too, and compares again.
  for (let version = 2; version <= 6 && answers <= 20; version += 1) {
    const next = heavyPricing({ ...heavy, version: `${version}.0.0`, extra: version - 1 });
    equal((await uploadFile(world, "/services/Heavy/pricings", next)).status, 201, "its next version");
    const over = new AbortController();
    const path = `/services/Heavy/diff?from=1.0.0&to=${version}.0.0`;
    const diff = ask(world, "GET", path, { key: world.evaluationKey }).finally(() => over.abort());
    while (!over.signal.aborted) {
      equal((await world.fetch("/live")).status, 200, "beside a diff");
      answers += 1;
    }
    const { status, at } = await diff;
    equal(status, 200, "the diff");
    const { complete, capped } = at("space") as { complete: boolean; capped: string[] };
    equal(complete, capped.length === 0, "what was not looked at is named");
  }
  equal(answers > 20, true, `answers beside a diff: ${answers}`);
}

/** Returns a function that reads on until the text matches; it returns all text so far. */
function reader(answer: Response): (until: RegExp) => Promise<string> {
  const from = answer.body?.getReader();
  let text = "";
  return async (until) => {
    while (!until.test(text)) {
      const { done, value } = (await from?.read()) ?? { done: true };
      if (done) throw new Error(`the stream ended before ${until}: ${text}`);
      text += new TextDecoder().decode(value);
    }
    return text;
  };
}
