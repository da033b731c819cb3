// The page of share links: "Create and copy link" creates the link and copies it at once.

import { localizeTimes } from "../format.js";

const form = document.getElementById("share-form");

form?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("[type=submit]");
  const body = new FormData(form);
  button.disabled = true;
  try {
    const response = await fetch(location.href, { method: "POST", body, credentials: "same-origin" });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const part = page.getElementById("share-part");
    // e.g. the login page, because the session has ended
    if (!part) throw new Error("unexpected response");
    localizeTimes(part);
    document.getElementById("share-part").replaceChildren(...part.childNodes);
  } catch {
    document.getElementById("share-problem").textContent = form.dataset.failed;
    button.disabled = false;
    return;
  }
  await copy();
  // adds the button with which the link is copied again
  await import("../account/copy.js");
});

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

// without this script's help, such as after a reload
if (document.getElementById("secret")) import("../account/copy.js");
