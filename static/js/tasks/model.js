// The model of a task, drawn by Netron: on its own page, and folded on the task's page.

import { fetched, makeFrame, NotDrawn } from "../graph/frame.js";

/** Draw the model of a part that the server rendered (templates/tasks/_model.html). */
export async function drawModel(part) {
  const { dataset } = part;
  if (!dataset.address) return;
  const status = part.querySelector("[data-graph=status]");
  const say = (text, kind = "") => {
    status.textContent = text;
    status.dataset.kind = kind;
  };
  const heard = ({ kind }) => {
    if (kind === "left") part.focus();
  };
  dataset.state = "loading";
  say(dataset.loading);
  const frame = makeFrame(part.querySelector("[data-graph=stage]"), { address: dataset.viewer, title: dataset.title, heard });
  try {
    const file = await fetched(dataset.address, (response) => response.blob());
    await frame.open(file, "model.mge");
    dataset.state = "drawn";
    say("");
  } catch (error) {
    if (!(error instanceof NotDrawn)) throw error;
    frame.remove();
    dataset.state = "failed";
    say(error.message || dataset.failed, "problem");
  }
}

// the page of the model has the part at once; the task's page fetches it when its preview is opened
const part = document.getElementById("model-graph");
if (part) drawModel(part);
