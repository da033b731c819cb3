import assert from "node:assert/strict";
import test from "node:test";

import { bytesize, fill } from "../format.js";
import { getJson, onSessionEnd, postJson } from "../requests.js";
import { waitMs } from "../socket.js";

test("sizes are formatted as on the server", () => {
  assert.equal(bytesize(0), "0 B");
  assert.equal(bytesize(1023), "1023 B");
  assert.equal(bytesize(1536), "1.5 KiB");
  assert.equal(bytesize(5 * 1024 ** 3), "5.0 GiB");
});

test("a placeholder without a value stays", () => {
  assert.equal(fill("{name} is {what}", { name: "{what}" }), "{what} is {what}");
});

test("waits before a reconnect grow from half a second to half a minute", () => {
  assert.equal(waitMs(0, () => 0), 500);
  assert.equal(waitMs(0, () => 1), 1000);
  assert.equal(waitMs(3, () => 0), 4000);
  assert.equal(waitMs(1000, () => 1), 30_000);
});

test("the login page, a 401 or a rejected CSRF token ends the session; other 403s do not", async (t) => {
  const before = { document: globalThis.document, fetch: globalThis.fetch };
  t.after(() => Object.assign(globalThis, before));
  globalThis.document = { querySelector: () => ({ value: "token" }) };
  const ended = t.mock.fn();
  onSessionEnd(ended);
  /** Returns how often the session end was reported, and the status of the error. */
  const ask = async (request, status, body, { url = "" } = {}) => {
    ended.mock.resetCalls();
    const response = new Response(body, { status });
    if (url) Object.defineProperties(response, { redirected: { value: true }, url: { value: url } });
    globalThis.fetch = async () => response;
    const error = await request("/tasks/", { login: "/accounts/login/" }).catch((thrown) => thrown);
    return [ended.mock.callCount(), error.status];
  };
  const post = (url, options) => postJson(url, {}, options);
  assert.deepEqual(await ask(post, 403, '{"code": "csrf_failed", "detail": "Reload."}'), [1, 401]);
  assert.deepEqual(await ask(post, 403, '{"code": "forbidden", "detail": "No."}'), [0, 403]);
  assert.deepEqual(await ask(post, 401, "{}"), [1, 401]);
  assert.deepEqual(await ask(post, 200, "<form>", { url: "http://here/accounts/login/?next=/" }), [1, 401]);
  assert.deepEqual(await ask(post, 403, "<h1>Forbidden by the proxy</h1>"), [0, 403]);
  assert.deepEqual(await ask(getJson, 403, "<h1>Forbidden</h1>"), [0, 403]);
});
