// The notice about the connection at the top of pages with live updates.

const element = document.getElementById("connection");

/** Show the notice `name`: "lost", "failed" or "gone", a data attribute of the element. */
export function showNotice(name) {
  element.textContent = element.dataset[name];
  element.hidden = false;
}

export function hideNotice() {
  element.hidden = true;
}
