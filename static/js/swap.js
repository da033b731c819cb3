// Replace a part of the page by what the server rendered, without throwing the reader off.

import { tellAgo, tellElapsed } from "./ago.js";
import { localizeTimes } from "./format.js";

/** Put `fragment` into `element`; focus and sideways scrolling stay where they were. */
export function swap(element, fragment) {
  localizeTimes(fragment);
  tellAgo(fragment);
  tellElapsed(fragment);
  if (sameContent(element, fragment)) return;
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const scrolled = new Map();
  for (const box of element.querySelectorAll("[data-scroll]")) {
    scrolled.set(box.dataset.scroll, [box.scrollLeft, box.scrollTop]);
  }
  element.replaceChildren(fragment);
  for (const box of element.querySelectorAll("[data-scroll]")) {
    const [left, top] = scrolled.get(box.dataset.scroll) ?? [0, 0];
    box.scrollLeft = left;
    box.scrollTop = top;
  }
  if (focused) refocus(element, focused);
}

/** Whether there is nothing to do: an unchanged page keeps selection and what a screen reader reads. */
function sameContent(element, fragment) {
  const now = document.createElement("div");
  now.append(fragment.cloneNode(true));
  const then = element.cloneNode(true);
  for (const box of [now, then]) {
    // a new one with each answer
    for (const token of box.querySelectorAll("[name=csrfmiddlewaretoken]")) token.remove();
  }
  return now.innerHTML.trim() === then.innerHTML.trim();
}

function refocus(element, focused) {
  const same =
    (focused.id && element.querySelector(`#${CSS.escape(focused.id)}`)) ||
    (focused.dataset.scroll && element.querySelector(`[data-scroll="${CSS.escape(focused.dataset.scroll)}"]`));
  if (same) {
    same.focus({ preventScroll: true });
    return;
  }
  // what had the focus is gone (a button that makes no sense any more): stay near
  element.tabIndex = -1;
  element.focus({ preventScroll: true });
}
