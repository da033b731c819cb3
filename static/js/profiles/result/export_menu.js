// The export menu: files of the table hold what the page's address asks for at the moment of the click.

for (const link of document.querySelectorAll("#export a[data-asks]")) {
  const address = link.href;
  const follow = () => {
    link.href = address + window.location.search;
  };
  // also a click with the middle button, or "copy the address"
  for (const name of ["pointerdown", "focus", "click"]) link.addEventListener(name, follow);
}
