// Search for results that the comparison can be extended by, without leaving the page. Without
// JavaScript the search leads to the page on which results are chosen.

import { whenOpened } from "../../fold.js";
import { getFragment } from "../../requests.js";
import { swap } from "../../swap.js";

const PAUSE_MS = 250;

/**
 * Start the search; return a function that renews the results after the filters of the page changed.
 * box: the `<details>` with the search; the first results are fetched when it is opened
 */
export function startAdding(box) {
  const form = box.querySelector("form");
  const results = box.querySelector("#add-results");
  let waiting = 0;
  let latest = 0;

  async function find() {
    clearTimeout(waiting);
    latest += 1;
    const mine = latest;
    // filters, side and order of the page stay, also those chosen since it was loaded
    const query = new URLSearchParams(location.search);
    query.delete("page");
    for (const name of ["choose", "find"]) query.set(name, String(new FormData(form).get(name)));
    query.set("part", "1");
    try {
      const fragment = await getFragment(`?${query}`, { login: form.dataset.login });
      if (mine === latest) swap(results, fragment);
    } catch {
      if (mine === latest) results.textContent = form.dataset.failed;
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    find();
  });
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(find, PAUSE_MS);
  });
  whenOpened(box, () => {
    form.querySelector("[type=search]").focus();
    if (!results.childElementCount) find();
  });
  return () => {
    if (box.open) find();
    else results.replaceChildren();
  };
}
