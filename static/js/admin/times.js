// Times of the administration in the reader's zone, as on the other pages.

import { localizeTimes } from "../format.js";
import { tellZone } from "../zone.js";

// Django writes the page's first tag, where other pages name the zone that the reader chose
document.documentElement.dataset.timeZone = document.querySelector("meta[name=reader-zone]").content;
tellZone();
localizeTimes(document);
