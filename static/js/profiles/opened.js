// While an opened profile is being read: show how far it is, then what became of it.

import { keepLive } from "../live_page.js";
import { makeRefresher } from "../refresher.js";

const place = document.getElementById("opened-progress");
const isOver = () => place.querySelector("[data-state]").dataset.state !== "processing";

const refresh = makeRefresher(place, () => place.dataset.statusUrl, {
  onSwap: () => {
    if (isOver()) window.location.reload();
  },
});

keepLive({
  path: `/ws/profiles/opened/${place.dataset.upload}/`,
  login: place.dataset.login,
  refresh,
  isOver,
  onMessage: refresh,
});
