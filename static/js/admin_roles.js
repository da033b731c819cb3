// Django's filter boxes name a picture without saying that it is one; they make it when the page loads.

window.addEventListener("load", () => {
  setTimeout(() => {
    for (const mark of document.querySelectorAll("span.help-tooltip[aria-label]")) {
      mark.setAttribute("role", "img");
    }
  });
});
