// Set the theme of the user's profile before the page is painted; without one the system decides.

const theme = document.querySelector("meta[name=user-theme]").content;
if (theme) document.documentElement.dataset.theme = theme;
