// Replace a part of the page by server-rendered HTML, and keep focus, caret and scroll positions.

import { updateRelativeTimes, updateElapsedTimes } from "./ago.js";
import { localizeTimes } from "./format.js";

/** Replace the content of `element` by `fragment`; keep the focus, its caret and the scroll position of inner boxes. */
export function swap(element, fragment) {
  localizeTimes(fragment);
  // in both, so that times that only grow older make no difference
  for (const part of [fragment, element]) {
    updateRelativeTimes(part);
    updateElapsedTimes(part);
  }
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

/** Whether the content is the same; then it stays, and so do the selection and the screen reader's place. */
function sameContent(element, fragment) {
  const next = document.createElement("div");
  next.append(fragment.cloneNode(true));
  const current = element.cloneNode(true);
  for (const box of [next, current]) {
    // CSRF tokens differ in each response
    for (const token of box.querySelectorAll("[name=csrfmiddlewaretoken]")) token.remove();
  }
  return next.innerHTML.trim() === current.innerHTML.trim();
}

function refocus(element, focused) {
  const replacement =
    (focused.id && element.querySelector(`#${CSS.escape(focused.id)}`)) ||
    (focused.dataset.scroll && element.querySelector(`[data-scroll="${CSS.escape(focused.dataset.scroll)}"]`));
  if (replacement) {
    replacement.focus({ preventScroll: true });
    // elements other than fields of text have no selection
    const { selectionStart: start = null, selectionEnd: end, selectionDirection: direction } = focused;
    if (start !== null) replacement.setSelectionRange(start, end, direction);
    return;
  }
  // the focused element no longer exists: focus its container
  element.tabIndex = -1;
  element.focus({ preventScroll: true });
}
