// Clicks on links that scripts follow themselves.

/** Whether a click follows a link in the same tab; with other buttons or modifier keys, browsers open a tab or download. */
export function isPlainClick({ button, ctrlKey, metaKey, shiftKey, altKey }) {
  return !button && !ctrlKey && !metaKey && !shiftKey && !altKey;
}
