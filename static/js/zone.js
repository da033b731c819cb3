// Tells the server the browser's time zone, for dates of readers who chose none.

const YEAR_S = 365 * 24 * 3600;

export function tellZone(doc = document, zone = Intl.DateTimeFormat().resolvedOptions().timeZone) {
  if (!zone) return;
  const cookie = `tz=${encodeURIComponent(zone)}`;
  if (doc.cookie.split("; ").includes(cookie)) return;
  doc.cookie = `${cookie}; Path=/; Max-Age=${YEAR_S}; SameSite=Lax`;
}
