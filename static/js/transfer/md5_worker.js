// Reads files and pieces of files and sums them, off the page's thread.
// In: a Blob. Out: {done: bytes} now and then, at the end {md5}, or {failed: why}: "unreadable", or
// "assembly" where the browser runs no WebAssembly.
// MD5 is against damage on the way, not against malice. WebCrypto has none.

import "../../vendor/hash-wasm/md5.umd.min.js";

const PIECE_BYTES = 4 * 1024 * 1024;
const made = self.hashwasm.createMD5().catch(() => null);

self.addEventListener("message", async ({ data: blob }) => {
  const sum = await made;
  if (sum === null) return self.postMessage({ failed: "assembly" });
  sum.init();
  try {
    for (let at = 0; at < blob.size; at += PIECE_BYTES) {
      const piece = await blob.slice(at, at + PIECE_BYTES).arrayBuffer();
      sum.update(new Uint8Array(piece));
      self.postMessage({ done: at + piece.byteLength });
    }
    return self.postMessage({ md5: sum.digest() });
  } catch {
    // the file was changed, moved or deleted after the reader chose it
    return self.postMessage({ failed: "unreadable" });
  }
});
