// Start the charts of a result's operators.

import { getJson } from "../requests.js";
import { cumulativePicture } from "./cumulative.js";
import { memoryPicture } from "./memory.js";
import { withTypes } from "./operators.js";
import { rooflinePicture } from "./roofline.js";
import { scopesPicture } from "./scopes.js";
import { startPictures } from "./show.js";
import { timelinePicture } from "./timeline.js";
import { typesPicture } from "./types.js";

const KINDS = {
  timeline: timelinePicture,
  types: typesPicture,
  scopes: scopesPicture,
  roofline: rooflinePicture,
  memory: memoryPicture,
  cumulative: cumulativePicture,
};

const section = document.querySelector("#pictures");
let operators = null;

/** Fetch names and times of all operators, once for all charts. */
function fetchOperators() {
  operators ??= getJson(section.dataset.operators, { login: section.dataset.login, cache: "no-cache" }).then(withTypes);
  operators.catch(() => {
    operators = null;
  });
  return operators;
}

startPictures(section, KINDS, fetchOperators);
