// The colours that the reader chose in the profile, before anything is drawn; none: as the system.

const chosen = document.querySelector("meta[name=reader-theme]").content;
if (chosen) document.documentElement.dataset.theme = chosen;
