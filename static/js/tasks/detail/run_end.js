// When a run ends, its page goes on to the result by itself, unless somebody is reading it.

/** what a reader does: by wheel, finger, keyboard or scroll bar; a modifier key alone is none */
const ACTS = ["wheel", "touchmove", "keydown"];
const MODIFIERS = ["Shift", "Control", "Alt", "Meta"];
/** pixels that a page may move by itself when its content changes */
const SLACK = 40;

/** Whether the page goes on when the status changes from one to another. Pure. */
export function goesOn(before, now, isRead) {
  return before !== now && !["succeeded", "failed", "cancelled"].includes(before) && now === "succeeded" && !isRead;
}

/**
 * Returns a function that is told each status of the run.
 *
 * status: the one that the page was loaded with; `result` the result's address, `opening` words
 */
export function followRun(status, { result, opening }) {
  let before = status;
  let isRead = false;
  const began = window.scrollY;
  const note = (event) => {
    if (!MODIFIERS.includes(event.key)) isRead = true;
  };
  for (const name of ACTS) window.addEventListener(name, note, { passive: true });
  return (now) => {
    const isScrolled = Math.abs(window.scrollY - began) > SLACK;
    const isSelecting = !(document.getSelection()?.isCollapsed ?? true);
    if (goesOn(before, now, isRead || isScrolled || isSelecting)) {
      document.getElementById("task-announcement").textContent = opening;
      window.location.assign(result);
    }
    before = now;
  };
}
