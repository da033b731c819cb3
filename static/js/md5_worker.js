// Reads a file piece by piece and sums it, off the page's thread.
// In: a File. Out: {done: bytes} now and then, at the end {md5} or {unreadable: true}.

import { Md5 } from "./md5.js";

const PIECE_BYTES = 4 * 1024 * 1024;

self.addEventListener("message", async ({ data: file }) => {
  const sum = new Md5();
  try {
    for (let at = 0; at < file.size; at += PIECE_BYTES) {
      const piece = await file.slice(at, at + PIECE_BYTES).arrayBuffer();
      sum.update(new Uint8Array(piece));
      self.postMessage({ done: at + piece.byteLength });
    }
    self.postMessage({ md5: sum.hex() });
  } catch {
    // the file was changed, moved or deleted after the reader chose it
    self.postMessage({ unreadable: true });
  }
});
