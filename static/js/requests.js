// Requests to the site's own server: JSON in both directions, HTML fragments, and their tracing.

import { toJson } from "./numbers.js";

/**
 * The server rejected the request and answered with problem details (RFC 9457): `code`; `message` in
 * the user's language; `field`, or an empty string; `errors`, [{field, code, detail}], for single fields.
 */
export class Refusal extends Error {
  constructor(status, { code, detail, field = "", errors = [] }) {
    super(detail);
    this.status = status;
    this.code = code;
    this.field = field;
    this.errors = errors;
    /** Whether the rejected request was the final submit, sent after all files are in storage. */
    this.isFromSubmit = false;
  }
}

/** The server sent no usable response. `status` is its HTTP status, or 0 without any response. */
export class NoAnswer extends Error {
  constructor(status) {
    super(`no answer (${status})`);
    this.status = status;
  }
}

const FRAGMENT_TIMEOUT_MS = 15_000;
const JSON_TIMEOUT_MS = 60_000;

/**
 * POST an object as JSON and return the object in the response. Throws Refusal or NoAnswer.
 *
 * key: an Idempotency-Key; a repeated request with it creates nothing again
 */
export async function postJson(url, body, { login, key = "" }) {
  const response = await send(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json",
      "X-CSRFToken": csrfToken(),
      ...(key && { "Idempotency-Key": key }),
      ...(/\/submit\/(\?|$)/.test(url) ? finalTraceHeaders() : traceHeaders()),
    },
    body: toJson(body),
    signal: AbortSignal.timeout(JSON_TIMEOUT_MS),
  });
  return readJson(response, login);
}

/** DELETE the resource at `url`, which may be gone already. Throws NoAnswer. */
export async function deleteAt(url, { login }) {
  const response = await send(url, {
    method: "DELETE",
    headers: { Accept: "application/json", "X-CSRFToken": csrfToken() },
    signal: AbortSignal.timeout(JSON_TIMEOUT_MS),
  });
  checkLogin(response, login);
  if (!response.ok && response.status !== 404) throw new NoAnswer(response.status);
}

/**
 * GET a JSON object. Throws Refusal or NoAnswer.
 *
 * cache: as in fetch(); "no-cache" revalidates responses that have an ETag
 */
export async function getJson(url, { login, cache = "no-store" }) {
  const response = await send(url, {
    headers: { Accept: "application/json" },
    cache,
    signal: AbortSignal.timeout(JSON_TIMEOUT_MS),
  });
  return readJson(response, login);
}

/** GET HTML as a DocumentFragment, whose scripts never run. Throws NoAnswer. */
export async function getFragment(url, { login }) {
  const response = await send(url, {
    headers: { Accept: "text/html" },
    cache: "no-store",
    signal: AbortSignal.timeout(FRAGMENT_TIMEOUT_MS),
  });
  checkLogin(response, login);
  if (!response.ok) throw new NoAnswer(response.status);
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  const fragment = document.createDocumentFragment();
  // stylesheets and scripts that come first are moved to the head by the parser
  fragment.append(...parsed.head.childNodes, ...parsed.body.childNodes);
  return fragment;
}

/** Go to the login page, which returns to this page after the login. */
export function goToLogin(login) {
  window.location.assign(loginUrl(login));
}

/** The URL of the login page, with this page as `next`. */
export function loginUrl(login) {
  const page = window.location.pathname + window.location.search;
  return `${login}?next=${encodeURIComponent(page)}`;
}

let sessionEndHandler = goToLogin;

/** Call `handler` when the session has ended, instead of going to the login page at once. */
export function onSessionEnd(handler) {
  sessionEndHandler = handler;
}

function csrfToken() {
  return document.querySelector("[name=csrfmiddlewaretoken]").value;
}

async function send(url, options) {
  try {
    return await fetch(url, { credentials: "same-origin", ...options });
  } catch {
    throw new NoAnswer(0);
  }
}

/** The object in a response. Throws Refusal or NoAnswer. */
async function readJson(response, login) {
  checkLogin(response, login);
  const text = await response.text().catch(() => "");
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new NoAnswer(response.status);
  }
  // the CSRF token belongs to an earlier session
  if (data?.code === "csrf_failed") endSession(login);
  if (!response.ok) throw data?.detail ? new Refusal(response.status, data) : new NoAnswer(response.status);
  return data;
}

/** End the session if the response is the login page or a 401. */
function checkLogin(response, login) {
  const isLogin = response.redirected && new URL(response.url).pathname === login;
  if (isLogin || response.status === 401) endSession(login);
}

function endSession(login) {
  sessionEndHandler(login);
  throw new NoAnswer(401);
}

// Distributed tracing of a task's submission, if the site collects traces: trace ids in the format of W3C
// Trace Context (https://www.w3.org/TR/trace-context/), and the phases of the work in the page.

let header = "";
let began = 0;
const phases = [];

/** Begin a trace; later requests carry its id. */
export function beginTrace() {
  header = `00-${randomHex(16)}-${randomHex(8)}-01`;
  began = Date.now();
  phases.length = 0;
}

/** Record the time since the last mark as the phase `name`. */
export function markPhase(name) {
  if (!header) return;
  const now = Date.now();
  phases.push(`${name};${began};${now}`);
  began = now;
}

/** The trace headers of a request to the site; empty without a trace. */
export function traceHeaders() {
  return header ? { traceparent: header } : {};
}

/** The trace headers of the final submit request, with the phases; records the upload as the last one. */
export function finalTraceHeaders() {
  if (!header) return {};
  markPhase("upload");
  return { traceparent: header, "x-trace-phases": phases.join(",") };
}

function randomHex(bytes) {
  const values = crypto.getRandomValues(new Uint8Array(bytes));
  return Array.from(values, (value) => value.toString(16).padStart(2, "0")).join("");
}
