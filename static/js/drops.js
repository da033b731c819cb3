// Files dropped on a part of a page.

/**
 * Let files be dropped on `area`; a drop beside it must not open the file instead of the page.
 *
 * onTransfer: sees the drop first, and takes it by returning true
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
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    if (onTransfer(event.dataTransfer)) return;
    if (event.dataTransfer.files.length) onFiles([...event.dataTransfer.files]);
  });
}
