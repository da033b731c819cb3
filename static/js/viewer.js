// The page's side of the iframe of a viewer: Netron (`graph/frame.js`) or Perfetto (`profiles/timeline/frame.js`).

import { isDark, onTheme } from "./theme.js";

/**
 * Put the iframe of a viewer into `stage`. onMessage(message): called for each message from it.
 * Returns {frame, post(message, transfer), remove()}.
 */
export function putViewer(stage, { address, title, className, onMessage }) {
  const frame = document.createElement("iframe");
  frame.className = className;
  frame.title = title;
  frame.name = isDark() ? "dark" : "light";
  frame.src = address;
  frame.referrerPolicy = "no-referrer";
  frame.setAttribute("sandbox", "allow-scripts");
  // an opaque origin cannot be named as the target; this page's CSP allows only the viewer in the iframe
  const post = (message, transfer = []) => frame.contentWindow?.postMessage(message, "*", transfer);
  const listen = (event) => {
    // the viewer's page has an opaque origin, which events report as "null"
    if (event.source === frame.contentWindow && event.origin === "null") onMessage(event.data ?? {});
  };
  addEventListener("message", listen);
  const stopTheme = onTheme(() => post({ kind: "theme", isDark: isDark() }));
  stage.replaceChildren(frame);
  return {
    frame,
    post,
    remove() {
      removeEventListener("message", listen);
      stopTheme();
      frame.remove();
    },
  };
}
