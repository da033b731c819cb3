// Pieces of the result page that the server renders, fetched as needed.

import { NoAnswer, getFragment } from "../../requests.js";

/**
 * Return a function that fetches fragments, the same address only once at a time.
 * `login` is where a visitor is sent whose session has ended.
 */
export function makeFetcher(login) {
  const running = new Map();
  return function fetchFragment(url) {
    if (!running.has(url)) {
      running.set(url, getFragment(url, { login }).finally(() => running.delete(url)));
    }
    return running.get(url);
  };
}

/** The address of a piece: a base that may have parameters already, and some more. */
export function withParameters(base, parameters) {
  const url = new URL(base, location.href);
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, String(value));
  return url.pathname + url.search;
}

export { NoAnswer };
