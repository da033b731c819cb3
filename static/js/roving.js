// A group of controls with one Tab stop, as in the ARIA pattern "toolbar": arrow keys move inside it.

const CONTROLS = "a[href], button, summary";

/** Keep `group` at one Tab stop among its links and buttons; fields keep their own stops. */
export function keepOneStop(group) {
  let current = null;

  function controls() {
    const inside = [...group.querySelectorAll(CONTROLS)];
    return inside.filter((each) => each.checkVisibility() && !each.disabled && !each.closest("[popover], .menu__list"));
  }

  function update() {
    const all = controls();
    if (!all.includes(current)) current = all.find((each) => each.hasAttribute("aria-current")) ?? all[0];
    for (const each of all) each.tabIndex = each === current ? 0 : -1;
  }

  group.addEventListener("focusin", ({ target }) => {
    if (!controls().includes(target)) return;
    current = target;
    update();
  });
  group.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const all = controls();
    const now = all.indexOf(event.target);
    const places = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: all.length - 1 };
    if (now < 0 || !(event.key in places)) return;
    event.preventDefault();
    all.at(places[event.key] % all.length).focus();
  });
  new MutationObserver(update).observe(group, { subtree: true, childList: true, attributes: true, attributeFilter: ["hidden", "disabled", "aria-current"] });
  update();
}
