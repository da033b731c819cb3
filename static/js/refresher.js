// Fetches a fragment and swaps it in: one request at a time, at most one more after it.

import { hideNotice, showNotice } from "./notice.js";
import { getFragment } from "./requests.js";
import { swap } from "./swap.js";

const RETRY_MS = 3_000;

/**
 * Return a function that asks for a refresh of `element` from url(), `delayMs` later.
 * Calls in the meantime are folded into one. `onSwap` is told after each.
 */
export function makeRefresher(element, url, { delayMs = 200, onSwap = () => {} } = {}) {
  let timer = null;
  let running = false;
  let again = false;

  async function refresh() {
    timer = null;
    running = true;
    again = false;
    element.setAttribute("aria-busy", "true");
    try {
      swap(element, await getFragment(url(), { login: element.dataset.login }));
      hideNotice();
      onSwap();
    } catch {
      showNotice("failed");
      timer = window.setTimeout(refresh, RETRY_MS);
    } finally {
      running = false;
      element.removeAttribute("aria-busy");
      if (again) ask();
    }
  }

  function ask() {
    again = running;
    if (running || timer !== null) return;
    timer = window.setTimeout(refresh, delayMs);
  }

  return ask;
}
