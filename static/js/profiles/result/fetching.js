// Pieces of the result page that the server renders, fetched as needed.

import { getFragment } from "../../requests.js";

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
