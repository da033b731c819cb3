// Requests to our own server: JSON out and in, and HTML fragments.

import { toJson } from "./numbers.js";
import { lastHeaders, traceHeaders } from "./trace.js";

/**
 * What the server said no with, as problem details (RFC 9457): `code`, `message` in the reader's
 * language, `field` or empty; `errors` [{field, code, detail}] of single fields.
 */
export class Refusal extends Error {
  constructor(status, { code, detail, field = "", errors = [] }) {
    super(detail);
    this.status = status;
    this.code = code;
    this.field = field;
    this.errors = errors;
    /** Whether it is the answer to the submission of files that are all in storage. */
    this.isOfSubmit = false;
  }
}

/** The server did not answer, or not as itself. `status` is 0 if there was no answer at all. */
export class NoAnswer extends Error {
  constructor(status) {
    super(`no answer (${status})`);
    this.status = status;
  }
}

export const FRAGMENT_TIMEOUT_MS = 15_000;
const JSON_TIMEOUT_MS = 60_000;

/** POST an object as JSON, return the answer's object. Throws Refusal or NoAnswer. */
export async function postJson(url, body, { login }) {
  const response = await answer(url, {
    method: "POST",
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json",
      "X-CSRFToken": csrfToken(),
      ...(/\/submit\/(\?|$)/.test(url) ? lastHeaders() : traceHeaders()),
    },
    body: toJson(body),
    signal: AbortSignal.timeout(JSON_TIMEOUT_MS),
  });
  leaveIfLoggedOut(response, login);
  const text = await response.text().catch(() => "");
  let data = null;
  try {
    data = JSON.parse(text);
  } catch {
    throw new NoAnswer(response.status);
  }
  // the token is one of an earlier session
  if (data?.code === "csrf_failed") endSession(login);
  if (!response.ok) throw data?.detail ? new Refusal(response.status, data) : new NoAnswer(response.status);
  return data;
}

/** DELETE what is at an address. Throws NoAnswer. */
export async function deleteAt(url, { login }) {
  const response = await answer(url, {
    method: "DELETE",
    headers: { Accept: "application/json", "X-CSRFToken": csrfToken() },
    signal: AbortSignal.timeout(JSON_TIMEOUT_MS),
  });
  leaveIfLoggedOut(response, login);
  if (!response.ok) throw new NoAnswer(response.status);
}

/** GET an object; `cache` as in fetch, "no-cache" for what the server dates. Throws NoAnswer. */
export async function getJson(url, { login, cache = "no-store" }) {
  const response = await answer(url, {
    headers: { Accept: "application/json" },
    cache,
    signal: AbortSignal.timeout(JSON_TIMEOUT_MS),
  });
  leaveIfLoggedOut(response, login);
  if (!response.ok) throw new NoAnswer(response.status);
  return response.json();
}

/** GET a piece of HTML as a DocumentFragment; scripts in it never run. Throws NoAnswer. */
export async function getFragment(url, { login }) {
  const response = await answer(url, {
    headers: { Accept: "text/html" },
    cache: "no-store",
    signal: AbortSignal.timeout(FRAGMENT_TIMEOUT_MS),
  });
  leaveIfLoggedOut(response, login);
  if (!response.ok) throw new NoAnswer(response.status);
  const parsed = new DOMParser().parseFromString(await response.text(), "text/html");
  const fragment = document.createDocumentFragment();
  fragment.append(...parsed.body.childNodes);
  return fragment;
}

/** Go to the login page, and come back here afterwards. */
export function toLogin(login) {
  window.location.assign(loginAddress(login));
}

/** The login page's address, from where a reader comes back here. */
export function loginAddress(login) {
  const here = window.location.pathname + window.location.search;
  return `${login}?next=${encodeURIComponent(here)}`;
}

let whenSessionEnded = toLogin;

/** What a page does when its session has ended, instead of leaving for the login page at once. */
export function onSessionEnd(act) {
  whenSessionEnded = act;
}

function csrfToken() {
  return document.querySelector("[name=csrfmiddlewaretoken]").value;
}

async function answer(url, options) {
  try {
    return await fetch(url, { credentials: "same-origin", ...options });
  } catch {
    throw new NoAnswer(0);
  }
}

function leaveIfLoggedOut(response, login) {
  const isLogin = response.redirected && new URL(response.url).pathname === login;
  if (isLogin || response.status === 401) endSession(login);
}

function endSession(login) {
  whenSessionEnded(login);
  throw new NoAnswer(401);
}
