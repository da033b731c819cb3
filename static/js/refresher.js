// Refresh a part of the page: one request at a time, and at most one more queued behind it.

import { hideNotice, showNotice } from "./notice.js";
import { getFragment } from "./requests.js";
import { swap } from "./swap.js";

const RETRY_MS = 3_000;

/**
 * Return a function that schedules a refresh of `element` from url() after `delayMs`, and at least the given pause, ms,
 * after the last one. Calls that arrive before the refresh starts are merged into one. `onSwap` is called after each
 * refresh. A refresh that fails is repeated, unless the session has ended or the page is gone.
 *
 * others: further elements that the response renews. It then has an element for each, with its id as `data-part`.
 */
export function makeRefresher(element, url, { delayMs = 200, onSwap = () => {}, others = [] } = {}) {
  let timer;
  let dueAt = Infinity;
  let endedAt = -Infinity;
  let running = false;
  let isEnded = false;
  // the user may have logged in in another tab
  document.addEventListener("visibilitychange", () => {
    isEnded = false;
  });
  /** The shortest pause of the calls during a refresh. */
  let queued = Infinity;

  async function refresh() {
    dueAt = Infinity;
    running = true;
    element.setAttribute("aria-busy", "true");
    try {
      const fragment = await getFragment(url(), { login: element.dataset.login });
      if (others.length) for (const part of [element, ...others]) swap(part, partFor(part, fragment));
      else swap(element, fragment);
      hideNotice("failed", "gone");
      onSwap();
    } catch ({ status }) {
      // the page has asked for a new login
      isEnded = status === 401;
      if (!isEnded) showNotice(status === 404 ? "gone" : "failed");
      if (!isEnded && status !== 404) queued = RETRY_MS;
    } finally {
      running = false;
      endedAt = performance.now();
      element.removeAttribute("aria-busy");
      if (queued < Infinity) schedule(queued);
    }
  }

  function schedule(pauseMs = 0) {
    if (isEnded) return;
    if (running) {
      queued = Math.min(queued, pauseMs);
      return;
    }
    queued = Infinity;
    const at = Math.max(performance.now() + delayMs, endedAt + pauseMs);
    if (dueAt <= at) return;
    window.clearTimeout(timer);
    dueAt = at;
    timer = window.setTimeout(refresh, at - performance.now());
  }

  return schedule;
}

function partFor(element, fragment) {
  const part = document.createDocumentFragment();
  part.append(...fragment.querySelector(`[data-part="${CSS.escape(element.id)}"]`).childNodes);
  return part;
}
