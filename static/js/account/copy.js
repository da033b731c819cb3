// Buttons that copy a field; shown only where the browser has the clipboard API.

/** Show and start the buttons that are on the page now. */
export function bindCopyButtons() {
  for (const button of document.querySelectorAll("[data-copy][hidden]")) {
    const source = document.querySelector(button.dataset.copy);
    source.addEventListener("focus", () => source.select());
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(source.value);
        button.textContent = button.dataset.copied;
      } catch {
        source.select();
      }
    });
  }
}

bindCopyButtons();
