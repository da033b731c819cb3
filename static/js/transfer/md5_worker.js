// A Web Worker that computes the MD5 of Blobs.
//
// Message in: a Blob. Messages out: {done: bytes} as progress, then {md5}, or {failed: "unreadable"},
// or {failed: "assembly"} if the browser does not run WebAssembly.
// MD5 detects damage in transit; it does not protect against tampering. WebCrypto has no MD5.

import "../../vendor/hash-wasm/md5.umd.min.js";

const PIECE_BYTES = 4 * 1024 * 1024;
const hasher = self.hashwasm.createMD5().catch(() => null);

self.addEventListener("message", async ({ data: blob }) => {
  const sum = await hasher;
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
    // the file was changed, moved or deleted after the user chose it
    return self.postMessage({ failed: "unreadable" });
  }
});
