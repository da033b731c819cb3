// The pass that timelines draw: one choice for the strip and the chart, kept in the address.

const NAME = "timeline";
const CHANGED = "timeline:pass";

/** The query of an address that shows the chosen pass; empty for the first one. */
export function passQuery() {
  const pass = new URLSearchParams(location.search).get(NAME);
  return pass ? `?${new URLSearchParams({ pass })}` : "";
}

/**
 * Let a `<select>` show and change the choice; `draw(pass)` is called after each change. Returns the pass.
 * @param {HTMLSelectElement | undefined} select without one there is a single pass
 * @param {(pass: string) => void} draw
 */
export function followPass(select, draw) {
  if (!select) return "1";
  const show = () => {
    select.value = new URLSearchParams(location.search).get(NAME) ?? "1";
    if (select.selectedIndex < 0) select.selectedIndex = 0;
    return select.value;
  };
  select.addEventListener("change", () => {
    const address = new URL(location.href);
    if (select.selectedIndex) address.searchParams.set(NAME, select.value);
    else address.searchParams.delete(NAME);
    history.replaceState(history.state, "", address);
    document.dispatchEvent(new Event(CHANGED));
  });
  document.addEventListener(CHANGED, () => draw(show()));
  // an earlier entry of the history may have another choice
  addEventListener("popstate", () => {
    const before = select.value;
    if (show() !== before) draw(select.value);
  });
  return show();
}
