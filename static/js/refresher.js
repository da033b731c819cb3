// Refresh a part of the page: one request at a time, and at most one more queued behind it.

import { hideNotice, showNotice } from "./notice.js";
import { getFragment } from "./requests.js";
import { swap } from "./swap.js";

const RETRY_MS = 3_000;

/**
 * Return a function that schedules a refresh of `element` from url() after `delayMs`.
 * Calls that arrive before the refresh starts are merged into one. `onSwap` is called after each refresh.
 *
 * others: further elements that the response renews. It then has an element for each, with its id as `data-part`.
 */
export function makeRefresher(element, url, { delayMs = 200, onSwap = () => {}, others = [] } = {}) {
  let timer = null;
  let running = false;
  let isQueued = false;

  async function refresh() {
    timer = null;
    running = true;
    isQueued = false;
    element.setAttribute("aria-busy", "true");
    try {
      const fragment = await getFragment(url(), { login: element.dataset.login });
      if (others.length) for (const part of [element, ...others]) swap(part, partFor(part, fragment));
      else swap(element, fragment);
      hideNotice();
      onSwap();
    } catch {
      showNotice("failed");
      timer = window.setTimeout(refresh, RETRY_MS);
    } finally {
      running = false;
      element.removeAttribute("aria-busy");
      if (isQueued) schedule();
    }
  }

  function schedule() {
    isQueued = running;
    if (running || timer !== null) return;
    timer = window.setTimeout(refresh, delayMs);
  }

  return schedule;
}

function partFor(element, fragment) {
  const part = document.createDocumentFragment();
  part.append(...fragment.querySelector(`[data-part="${CSS.escape(element.id)}"]`).childNodes);
  return part;
}
