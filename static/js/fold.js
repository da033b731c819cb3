// Parts of a page that fold.

/** Call onOpened() whenever `fold`, a `<details>`, is opened, and now if its reader opened it before scripts ran. */
export function whenOpened(fold, onOpened) {
  let isTold = false;
  const tell = () => {
    const isNew = fold.open && !isTold;
    isTold = fold.open;
    if (isNew) onOpened();
  };
  fold.addEventListener("toggle", tell);
  tell();
}
