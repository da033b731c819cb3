// Search for results that the comparison can be extended by, without leaving the page. Without
// JavaScript the search leads to the page on which results are chosen.

import { whenOpened } from "../../fold.js";
import { getFragment } from "../../requests.js";
import { swap } from "../../swap.js";

const PAUSE_MS = 250;

/** box: the `<details>` with the search; the first results are fetched when it is opened. */
export function startAdding(box) {
  const form = box.querySelector("form");
  const results = box.querySelector("#add-results");
  let waiting = 0;
  let latest = 0;

  async function find() {
    clearTimeout(waiting);
    latest += 1;
    const mine = latest;
    const query = new URLSearchParams({ part: "1" });
    for (const [name, value] of new FormData(form)) query.append(name, String(value));
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
}
