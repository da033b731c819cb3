// Clicks on links that scripts follow themselves.

/** Whether a click is one that follows a link in place: browsers do something else with other buttons and with modifier keys. */
export function isPlainClick({ button, ctrlKey, metaKey, shiftKey, altKey }) {
  return !button && !ctrlKey && !metaKey && !shiftKey && !altKey;
}
