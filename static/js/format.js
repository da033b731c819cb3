// Numbers and times as the reader sees them; `profiles/templatetags/quantities.py` does the same on the server.

const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A size in binary units: "1.5 MiB", "200 B". */
export function bytesize(bytes) {
  let step = 0;
  let value = bytes;
  while (value >= 1024 && step < SIZES.length - 1) {
    value /= 1024;
    step += 1;
  }
  return `${value.toFixed(step ? 1 : 0)} ${SIZES[step]}`;
}

/** Put values into the {places} of a text. */
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (place, name) => (name in values ? String(values[name]) : place));
}

const pad = (number) => String(number).padStart(2, "0");

/** Local time, as precise as the server's text: seconds only if it had them. */
export function localTime(iso, withSeconds) {
  const at = new Date(iso);
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  return `${day} ${time}${withSeconds ? `:${pad(at.getSeconds())}` : ""}`;
}

/** Turn the UTC texts that the server wrote into the reader's own time; the UTC stays as a tooltip. */
export function localizeTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    if (element.title) continue;
    const utc = element.textContent.trim();
    const withSeconds = /\d\d:\d\d:\d\d/.test(utc);
    element.title = utc;
    element.textContent = localTime(element.dateTime, withSeconds);
  }
}
