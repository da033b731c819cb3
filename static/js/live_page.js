// What the pages of one task and of one opened profile share: the socket that tells of changes, and
// looks that need none.

import { hideNotice, showNotice } from "./notice.js";
import { toLogin } from "./requests.js";
import { CLOSED_NOT_FOUND, CLOSED_NOT_LOGGED_IN, keepSocket } from "./socket.js";

// no event tells that the queue grew shorter, or that the device went away; and a proxy may pass no
// sockets at all
const INTERVAL_MS = 15_000;

/**
 * Keep a page up to date until isOver().
 *
 * path, hello, onMessage: as for `keepSocket`; refresh: fetches the page's fragment
 */
export function keepLive({ path, login, refresh, isOver, onMessage, hello = () => null }) {
  const look = () => {
    if (!isOver() && document.visibilityState === "visible") refresh();
  };
  window.setInterval(look, INTERVAL_MS);
  document.addEventListener("visibilitychange", look);
  keepSocket(path, {
    hello,
    onMessage,
    onUp: hideNotice,
    onDown: () => showNotice("lost"),
    onEnd: (code) => {
      if (code === CLOSED_NOT_LOGGED_IN) toLogin(login);
      if (code === CLOSED_NOT_FOUND) showNotice("gone");
    },
  });
}
