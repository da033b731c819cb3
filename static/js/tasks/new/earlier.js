// Offer the result of an equal task before anything is uploaded.

import { NoAnswer, Refusal, postJson } from "../../requests.js";

const form = document.getElementById("new-task");
const dialog = document.getElementById("earlier");

// the browser's "Back" shows the page as it was left
window.addEventListener("pageshow", ({ persisted }) => {
  if (persisted) dialog.close();
});

/** Ask for an earlier result of the same. Returns null if there is none; an error is left to the submission. */
export async function findEarlier(request) {
  const areKnown = request.files.every((file) => file.md5 || file.from_file || file.from_task);
  if (request.script || request.pairing || !areKnown) return null;
  try {
    const { url } = document.getElementById("command").dataset;
    return (await postJson(url, request, { login: form.dataset.login })).earlier;
  } catch (error) {
    if (error instanceof Refusal || error instanceof NoAnswer) return null;
    throw error;
  }
}

/** Offer the result. Returns whether to measure again; the other choices leave the page, or close the dialog. */
export function offerEarlier({ task, text, drift, may_check: mayCheck }) {
  const page = `${form.dataset.pages}${task}/`;
  document.getElementById("earlier-text").textContent = text;
  document.getElementById("earlier-drift").textContent = drift;
  document.getElementById("earlier-use").href = page;
  document.getElementById("earlier-check-form").action = `${page}check/`;
  document.getElementById("earlier-check").hidden = !mayCheck;
  dialog.returnValue = "";
  document.getElementById("earlier-again").onclick = () => dialog.close("again");
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "again"), { once: true });
  });
}
