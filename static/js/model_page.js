// The page of a task's model.

import { drawModel } from "./model_graph.js";

drawModel(document.getElementById("model-graph"));
