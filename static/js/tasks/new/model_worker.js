// A Web Worker that reads the inputs of a model. Message in: a File. Message out: the result of `readInputs`.

import { readInputs } from "./model_inputs.js";

self.addEventListener("message", ({ data: file }) => {
  const reader = new FileReaderSync();
  const read = (begin, end) => new Uint8Array(reader.readAsArrayBuffer(file.slice(begin, end)));
  let result;
  try {
    result = readInputs(read, file.size);
  } catch {
    // the file was changed, moved or deleted after the user chose it
    result = { isUnreadable: true };
  }
  self.postMessage(result);
});
