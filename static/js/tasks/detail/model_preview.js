// The model on the page of its task: fetched and drawn when its reader opens the preview, since
// drawing takes time of a machine that may be measuring at this moment.

import { whenOpened } from "../../fold.js";
import { getFragment } from "../../requests.js";
import { drawModel } from "../model.js";

const fold = document.getElementById("model-preview");
const stage = document.getElementById("model-preview-stage");
let isWanted = false;

async function open() {
  if (isWanted) return;
  isWanted = true;
  try {
    const page = await getFragment(fold.dataset.url, { login: fold.dataset.login });
    const part = page.querySelector("#model-graph");
    stage.replaceChildren(part);
    const drawing = drawModel(part);
    part.scrollIntoView({ block: "nearest" });
    await drawing;
  } catch {
    stage.textContent = fold.dataset.failed;
    isWanted = false;
  }
}

// a model that is not stored has no preview
if (fold) whenOpened(fold, open);
