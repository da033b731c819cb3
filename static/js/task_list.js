// The list of tasks: a wake-up on the socket means that the rows are to be fetched again.

import { hideNotice, showNotice } from "./notice.js";
import { makeRefresher } from "./refresher.js";
import { toLogin } from "./requests.js";
import { CLOSED_NOT_LOGGED_IN, keepSocket } from "./socket.js";

const rows = document.getElementById("task-rows");
const refresh = makeRefresher(rows, () => rows.dataset.url + window.location.search);

keepSocket("/ws/tasks/", {
  hello: () => null,
  onUp: hideNotice,
  onDown: () => showNotice("lost"),
  // the server says "changed" after each connect too, so nothing is missed in between
  onMessage: (message) => {
    if (message.type === "changed") refresh();
  },
  onEnd: (code) => {
    if (code === CLOSED_NOT_LOGGED_IN) toLogin(rows.dataset.login);
  },
});
