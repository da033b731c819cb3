// The notice about the connection at the top of pages with live updates.

const element = document.getElementById("connection");
/** What the notice can tell, the most severe first; data attributes of the element. */
const CAUSES = ["gone", "failed", "lost"];
const current = new Set();

/** Show why the page may be out of date: "gone", "failed" or "lost". */
export function showNotice(name) {
  current.add(name);
  update();
}

/** End these causes. The notice stays as long as there is another one. */
export function hideNotice(...names) {
  for (const name of names) current.delete(name);
  update();
}

function update() {
  const name = CAUSES.find((cause) => current.has(cause));
  element.hidden = !name;
  // screen readers announce each assignment
  if (name && element.textContent !== element.dataset[name]) element.textContent = element.dataset[name];
}
