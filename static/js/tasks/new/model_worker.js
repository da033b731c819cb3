// A Web Worker that reads the inputs of a model. Message in: a File, or the address of a stored file with its
// size, {address, size}. Message out: the result of `readInputs`.

import { readInputs } from "./model_inputs.js";

self.addEventListener("message", ({ data }) => {
  let result;
  try {
    result = readInputs(data instanceof File ? readerOf(data) : readerAt(data.address), data.size);
  } catch {
    // the file was changed, moved or deleted, or storage does not respond
    result = { isUnreadable: true };
  }
  self.postMessage(result);
});

function readerOf(file) {
  const reader = new FileReaderSync();
  return (begin, end) => new Uint8Array(reader.readAsArrayBuffer(file.slice(begin, end)));
}

/** The address redirects to a URL in storage, which is valid for minutes and used for all parts. */
function readerAt(address) {
  let url = address;
  return (begin, end) => {
    const request = new XMLHttpRequest();
    request.open("GET", url, false);
    request.responseType = "arraybuffer";
    request.setRequestHeader("Range", `bytes=${begin}-${end - 1}`);
    request.send();
    url = request.responseURL;
    // some storages send a part with the status 200; `readInputs` compares the length
    return [200, 206].includes(request.status) ? new Uint8Array(request.response) : null;
  };
}
