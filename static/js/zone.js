// Store the browser's time zone in a cookie, for users without a time zone in their profile.

const YEAR_S = 365 * 24 * 3600;

/** Set the cookie `tz` unless it already has this value. */
export function storeTimeZone(doc = document, zone = Intl.DateTimeFormat().resolvedOptions().timeZone) {
  if (!zone) return;
  const cookie = `tz=${encodeURIComponent(zone)}`;
  if (doc.cookie.split("; ").includes(cookie)) return;
  doc.cookie = `${cookie}; Path=/; Max-Age=${YEAR_S}; SameSite=Lax`;
}
