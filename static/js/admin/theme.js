// Set theme and time zone of the user's profile on the <html> tag, which Django renders in the admin, before
// the page is painted. Without a theme the system decides.

const [theme, zone] = ["theme", "time-zone"].map((name) => document.querySelector(`meta[name=user-${name}]`).content);
if (theme) document.documentElement.dataset.theme = theme;
if (zone) document.documentElement.dataset.timeZone = zone;
