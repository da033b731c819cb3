// The model of a task, drawn by Netron: on the model's own page, and as a view of the task.

import { DrawError, fetchContent, makeFrame } from "../graph/frame.js";

/** Draw the model in `part`, the element of templates/tasks/_model.html. */
async function drawModel(part) {
  const { dataset } = part;
  if (!dataset.address) return;
  const status = part.querySelector("[data-graph=status]");
  const showStatus = (text, kind = "") => {
    status.textContent = text;
    status.dataset.kind = kind;
  };
  const onMessage = ({ kind }) => {
    if (kind === "left") part.focus();
  };
  dataset.state = "loading";
  showStatus(dataset.loading);
  const frame = makeFrame(part.querySelector("[data-graph=stage]"), { address: dataset.viewer, title: dataset.title, onMessage });
  try {
    const file = await fetchContent(dataset.address, (response) => response.blob());
    await frame.open(file.slice(Number(dataset.begin), Number(dataset.end)), "model.mge", timesOf(part).nodes);
    dataset.state = "drawn";
    showStatus("");
  } catch (error) {
    if (!(error instanceof DrawError)) throw error;
    frame.remove();
    dataset.state = "failed";
    showStatus(error.message || dataset.failed, "problem");
  }
}

/** The times of the nodes in `part`: {nodes, scale}. */
function timesOf(part) {
  return JSON.parse(part.querySelector("#model-times")?.textContent ?? "{}");
}

/** Draw the model in `root`, once. */
export function start(root) {
  const part = root.querySelector("#model-graph[data-state=closed]");
  if (part) drawModel(part);
}

start(document);
