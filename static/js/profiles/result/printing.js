// Printing: what is fetched when it comes into view is fetched first, since paper has no view.

/** More rows make a book: the rows in the page are printed, and the export has the rest. */
export const MOST_PRINTED = 2_000;

const parts = new Set();

/** Have `fetchAll`, which may return a promise, called before the page is printed; returns a function that ends this. */
export function onWhole(fetchAll) {
  parts.add(fetchAll);
  return () => parts.delete(fetchAll);
}

/** Fetch all that a whole page has. What fails is missing on paper as on the screen. */
export async function makeWhole() {
  await Promise.allSettled([...parts].map((fetchAll) => fetchAll()));
  // what was drawn last is on the screen, and so on paper
  await new Promise((resolve) => { requestAnimationFrame(() => requestAnimationFrame(resolve)); });
}

/** The button that prints, in light colours; without this script nobody sees it. */
export function startPrinting(button) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    // a second click would take the light colours for those of the user
    if (button.ariaBusy) return;
    const page = document.documentElement;
    const { theme } = page.dataset;
    const colour = (name) => {
      if (name) page.dataset.theme = name;
      else delete page.dataset.theme;
      dispatchEvent(new Event("colours"));
    };
    button.setAttribute("aria-busy", "true");
    colour("light");
    await makeWhole();
    button.removeAttribute("aria-busy");
    addEventListener("afterprint", () => colour(theme), { once: true });
    window.print();
  });
}
