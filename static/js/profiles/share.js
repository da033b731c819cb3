// Share links: "Create and copy link" creates the link and copies it at once, on the page of links, and in the
// dialog that "Share…" opens on the page of a result.

import { localizeTimes } from "../format.js";

/** Fetch the element of the page of links that has the id of `part`, and show its content in `part`. */
async function load(part, address, options) {
  const response = await fetch(address, { credentials: "same-origin", ...options });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const loaded = page.getElementById(part.id);
  // e.g. the login page, because the session has ended
  if (!loaded) throw new Error("unexpected response");
  localizeTimes(loaded);
  part.replaceChildren(...loaded.childNodes);
}

/** Create a link when the form in `part` is submitted, and show the response in `part`. */
function bindForm(part, address) {
  part.addEventListener("submit", async (event) => {
    const form = event.target.closest("#share-form");
    if (!form) return;
    event.preventDefault();
    const button = form.querySelector("[type=submit]");
    button.disabled = true;
    try {
      await load(part, address, { method: "POST", body: new FormData(form) });
    } catch {
      document.getElementById("share-problem").textContent = form.dataset.failed;
      button.disabled = false;
      return;
    }
    await copy();
    // the button with which the link is copied again
    const { bindCopyButtons } = await import("../account/copy.js");
    bindCopyButtons();
  });
}

/** Copy the link; where the browser forbids that, it is selected. */
async function copy() {
  const source = document.getElementById("secret");
  if (!source) return;
  source.select();
  try {
    await navigator.clipboard.writeText(source.value);
  } catch {
    return;
  }
  const title = document.getElementById("share-made");
  title.textContent = title.dataset.copied;
}

/** Show the form of the page of links, to which `link` leads, in the dialog of this page. */
export async function openShareDialog(link) {
  const dialog = document.getElementById("share-dialog");
  let part = dialog.querySelector("#share-new");
  // without the listeners of the last opening
  part.replaceWith(part.cloneNode());
  part = dialog.querySelector("#share-new");
  try {
    await load(part, link.href);
  } catch {
    location.assign(link.href);
    return;
  }
  bindForm(part, link.href);
  dialog.querySelector("#share-list").href = link.href;
  dialog.showModal();
  part.querySelector("[type=submit]")?.focus();
}

const page = document.getElementById("share-part");
if (page) bindForm(page, location.href);
// after a reload, the browser may show the response that has the link
if (page?.querySelector("#secret")) import("../account/copy.js");
