// The one notice about the connection, at the top of a page that updates itself.

const element = document.getElementById("connection");

/** Show the text of that name: "lost", "failed" or "gone". */
export function showNotice(name) {
  element.textContent = element.dataset[name];
  element.hidden = false;
}

export function hideNotice() {
  element.hidden = true;
}
