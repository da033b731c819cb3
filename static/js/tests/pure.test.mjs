import assert from "node:assert/strict";
import test from "node:test";

import { bytesize, fill } from "../format.js";
import { getJson, onSessionEnd, postJson } from "../requests.js";
import { waitMs } from "../socket.js";

test("sizes read like the server's", () => {
  assert.equal(bytesize(0), "0 B");
  assert.equal(bytesize(1023), "1023 B");
  assert.equal(bytesize(1536), "1.5 KiB");
  assert.equal(bytesize(5 * 1024 ** 3), "5.0 GiB");
});

test("a place without a value stays", () => {
  assert.equal(fill("{name} is {what}", { name: "{what}" }), "{what} is {what}");
});

test("waits for a reconnect lie between half a second and half a minute and grow", () => {
  assert.equal(waitMs(0, () => 0), 500);
  assert.equal(waitMs(0, () => 1), 1000);
  assert.equal(waitMs(3, () => 0), 4000);
  assert.equal(waitMs(1000, () => 1), 30_000);
});

test("a session has ended by the login page, 401 or a refused CSRF token, not by any 403", async (t) => {
  const before = { document: globalThis.document, fetch: globalThis.fetch };
  t.after(() => Object.assign(globalThis, before));
  globalThis.document = { querySelector: () => ({ value: "token" }) };
  const ended = t.mock.fn();
  onSessionEnd(ended);
  /** How often the session counts as ended, and the status that is thrown. */
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
