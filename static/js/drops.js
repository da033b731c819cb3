// Drag and drop of files onto a part of a page.

// the browser would open a file that is dropped elsewhere on the page
for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());

/**
 * Accept files dropped on `area`.
 *
 * onTransfer: called before onFiles; returns true if it has handled the drop
 * @param {(transfer: DataTransfer) => boolean} onTransfer
 */
export function acceptDrops(area, onFiles, onTransfer = () => false) {
  for (const name of ["dragenter", "dragover"]) {
    area.addEventListener(name, (event) => {
      event.preventDefault();
      area.classList.add("drop--over");
    });
  }
  for (const name of ["dragleave", "drop"]) {
    area.addEventListener(name, () => area.classList.remove("drop--over"));
  }
  area.addEventListener("drop", ({ dataTransfer }) => {
    if (!onTransfer(dataTransfer) && dataTransfer.files.length) onFiles([...dataTransfer.files]);
  });
}
