import type { Answer, CallOptions, Method, TestApi } from "./api.ts";

/** A browser that a test stands in for: it sends its cookie and names its page, as browsers do. */
export interface BrowserSession {
  /** The cookie as the browser sends it: name and value. */
  cookie: string;
  call: TestApi["call"];
}

/** Origin under which tests call the application in process. */
export const OWN_ORIGIN = "http://localhost";

/** Returns the cookie that an answer sets, as a browser sends it back; undefined without one. */
export function cookieOf({ headers }: Pick<Answer, "headers">): string | undefined {
  return headers.getSetCookie()[0]?.split(";")[0];
}

/** Calls as the page of this cookie. */
export function browserWith(api: TestApi, cookie: string): BrowserSession {
  return {
    cookie,
    call: <T>(method: Method, path: string, options: CallOptions = {}) =>
      api.call<T>(method, path, { ...options, headers: { cookie, origin: OWN_ORIGIN, ...options.headers } }),
  };
}

/** Signs in as the console does. */
export async function signInByCookie(api: TestApi, username: string, password = "password"): Promise<BrowserSession> {
  const answer = await api.call("POST", "/sessions", { body: { username, password } });
  const cookie = cookieOf(answer);
  if (answer.status !== 201 || cookie === undefined) {
    throw new Error(`sign-in of ${username}: ${answer.status} ${JSON.stringify(answer.body)}`);
  }
  return browserWith(api, cookie);
}
