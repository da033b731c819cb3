// Times in the admin in the user's time zone, as on the other pages.

import { localizeTimes } from "../format.js";
import { storeTimeZone } from "../zone.js";

// Django renders the admin's <html> tag, where other pages have the time zone of the user's profile
document.documentElement.dataset.timeZone = document.querySelector("meta[name=user-time-zone]").content;
storeTimeZone();
localizeTimes(document);
