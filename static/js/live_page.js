// Live updates of the pages of a task and of an import: refresh when the socket reports a change, and
// at an interval.

import { hideNotice, showNotice } from "./notice.js";
import { goToLogin } from "./requests.js";
import { CLOSED_NOT_FOUND, CLOSED_NOT_LOGGED_IN, keepSocket } from "./socket.js";

// no event reports that the queue became shorter or that the device went offline, and a proxy may
// block WebSockets
const INTERVAL_MS = 15_000;

/**
 * Keep a page up to date until isOver().
 *
 * path, hello, onMessage: see `keepSocket`
 * refresh(): fetches the page's fragment
 */
export function keepLive({ path, login, refresh, isOver, onMessage, hello = () => null }) {
  const refreshIfVisible = () => {
    if (!isOver() && document.visibilityState === "visible") refresh();
  };
  window.setInterval(refreshIfVisible, INTERVAL_MS);
  document.addEventListener("visibilitychange", refreshIfVisible);
  keepSocket(path, {
    hello,
    onMessage,
    onUp: () => hideNotice("lost"),
    onDown: () => {
      if (!isOver()) showNotice("lost");
    },
    onEnd: (code) => {
      if (code === CLOSED_NOT_LOGGED_IN) goToLogin(login);
      if (code === CLOSED_NOT_FOUND) showNotice("gone");
    },
  });
}
