// The model of a task, drawn by Netron: on its own page, and folded on the task's page.

import { fetched } from "./result/graph_fetch.js";
import { makeFrame, NotDrawn } from "./result/graph_frame.js";

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
