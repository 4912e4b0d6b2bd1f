import { request, type RequestOptions } from "node:http";

/**
 * Sends one request. Callers share the processors with the servers, and `fetch` takes two to four times as much of them.
 * @throws if the connection breaks, or is idle for longer than the timeout.
 */
export function exchange(
  url: string,
  options: RequestOptions,
  body?: string,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, options, (answer) => {
      let text = "";
      answer
        .setEncoding("utf8")
        .on("data", (chunk: string) => (text += chunk))
        .on("end", () => resolve({ status: answer.statusCode ?? 0, text }))
        .on("error", reject);
    });
    sent
      .on("timeout", () => sent.destroy(new Error("no answer in time")))
      .on("error", reject)
      .end(body);
  });
}
