// The page of an import while it is processed: show the progress, and reload the page at the end.

import { keepLive } from "../live_page.js";
import { makeRefresher } from "../refresher.js";

const progress = document.getElementById("opened-progress");
const isOver = () => progress.querySelector("[data-state]").dataset.state !== "processing";

const refresh = makeRefresher(progress, () => progress.dataset.statusUrl, {
  onSwap: () => {
    if (isOver()) window.location.reload();
  },
});

keepLive({
  path: `/ws/profiles/opened/${progress.dataset.upload}/`,
  login: progress.dataset.login,
  refresh,
  isOver,
  onMessage: () => refresh(),
});
