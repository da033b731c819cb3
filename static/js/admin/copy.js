// Buttons that copy the text beside them; shown only where the browser has the clipboard API.

for (const box of document.querySelectorAll("[data-copy]")) {
  const button = box.querySelector("button");
  const text = box.querySelector(".copy__text").textContent;
  if (!navigator.clipboard) continue;
  button.hidden = false;
  const label = button.textContent;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = button.dataset.done;
    window.setTimeout(() => {
      button.textContent = label;
    }, 2_000);
  });
}
