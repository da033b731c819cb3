// MD5 after RFC 1321, fed piece by piece. WebCrypto has no MD5 and cannot be fed in pieces.
// A checksum against damage on the way, not a defence against malice.

const BLOCK_BYTES = 64;
const LENGTH_AT = 56;

/** The 64 constants of section 3.4: floor(2^32 * |sin(i + 1)|). */
const SINES = Int32Array.from({ length: 64 }, (_, i) => Math.floor(2 ** 32 * Math.abs(Math.sin(i + 1))) | 0);
export class Md5 {
  constructor() {
    this.state = Int32Array.of(0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476);
    this.words = new Int32Array(BLOCK_BYTES / 4);
    this.rest = new Uint8Array(BLOCK_BYTES);
    this.restBytes = 0;
    this.totalBytes = 0;
  }

  /** Take in the next bytes, a Uint8Array of any length. Returns this. */
  update(bytes) {
    this.totalBytes += bytes.length;
    let at = 0;
    if (this.restBytes) {
      at = Math.min(BLOCK_BYTES - this.restBytes, bytes.length);
      this.rest.set(bytes.subarray(0, at), this.restBytes);
      this.restBytes += at;
      if (this.restBytes < BLOCK_BYTES) return this;
      this.#block(this.rest, 0);
      this.restBytes = 0;
    }
    for (; at + BLOCK_BYTES <= bytes.length; at += BLOCK_BYTES) this.#block(bytes, at);
    this.rest.set(bytes.subarray(at));
    this.restBytes = bytes.length - at;
    return this;
  }

  /** End, and return the sum as 32 hexadecimal digits. Call it once. */
  hex() {
    const total = this.totalBytes;
    const padding = (this.restBytes < LENGTH_AT ? LENGTH_AT : LENGTH_AT + BLOCK_BYTES) - this.restBytes;
    const tail = new Uint8Array(padding + 8);
    tail[0] = 0x80;
    const view = new DataView(tail.buffer);
    // the length in bits, of which a double holds 53 exactly: in two words
    view.setUint32(padding, (total * 8) >>> 0, true);
    view.setUint32(padding + 4, Math.floor(total / 2 ** 29) >>> 0, true);
    this.update(tail);
    const sum = new Uint8Array(16);
    const out = new DataView(sum.buffer);
    this.state.forEach((word, i) => out.setInt32(i * 4, word, true));
    return Array.from(sum, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  /** Mix in 64 bytes. Four steps a turn, so that the four words change roles without being moved. */
  #block(bytes, start) {
    const x = this.words;
    const k = SINES;
    for (let i = 0, p = start; i < 16; i += 1, p += 4) {
      x[i] = bytes[p] | (bytes[p + 1] << 8) | (bytes[p + 2] << 16) | (bytes[p + 3] << 24);
    }
    let a = this.state[0];
    let b = this.state[1];
    let c = this.state[2];
    let d = this.state[3];
    for (let i = 0; i < 16; i += 4) {
      a = (turn((a + (d ^ (b & (c ^ d))) + x[i] + k[i]) | 0, 7) + b) | 0;
      d = (turn((d + (c ^ (a & (b ^ c))) + x[i + 1] + k[i + 1]) | 0, 12) + a) | 0;
      c = (turn((c + (b ^ (d & (a ^ b))) + x[i + 2] + k[i + 2]) | 0, 17) + d) | 0;
      b = (turn((b + (a ^ (c & (d ^ a))) + x[i + 3] + k[i + 3]) | 0, 22) + c) | 0;
    }
    for (let i = 16; i < 32; i += 4) {
      a = (turn((a + (c ^ (d & (b ^ c))) + x[(5 * i + 1) & 15] + k[i]) | 0, 5) + b) | 0;
      d = (turn((d + (b ^ (c & (a ^ b))) + x[(5 * i + 6) & 15] + k[i + 1]) | 0, 9) + a) | 0;
      c = (turn((c + (a ^ (b & (d ^ a))) + x[(5 * i + 11) & 15] + k[i + 2]) | 0, 14) + d) | 0;
      b = (turn((b + (d ^ (a & (c ^ d))) + x[(5 * i + 16) & 15] + k[i + 3]) | 0, 20) + c) | 0;
    }
    for (let i = 32; i < 48; i += 4) {
      a = (turn((a + (b ^ c ^ d) + x[(3 * i + 5) & 15] + k[i]) | 0, 4) + b) | 0;
      d = (turn((d + (a ^ b ^ c) + x[(3 * i + 8) & 15] + k[i + 1]) | 0, 11) + a) | 0;
      c = (turn((c + (d ^ a ^ b) + x[(3 * i + 11) & 15] + k[i + 2]) | 0, 16) + d) | 0;
      b = (turn((b + (c ^ d ^ a) + x[(3 * i + 14) & 15] + k[i + 3]) | 0, 23) + c) | 0;
    }
    for (let i = 48; i < 64; i += 4) {
      a = (turn((a + (c ^ (b | ~d)) + x[(7 * i) & 15] + k[i]) | 0, 6) + b) | 0;
      d = (turn((d + (b ^ (a | ~c)) + x[(7 * i + 7) & 15] + k[i + 1]) | 0, 10) + a) | 0;
      c = (turn((c + (a ^ (d | ~b)) + x[(7 * i + 14) & 15] + k[i + 2]) | 0, 15) + d) | 0;
      b = (turn((b + (d ^ (c | ~a)) + x[(7 * i + 21) & 15] + k[i + 3]) | 0, 21) + c) | 0;
    }
    this.state[0] += a;
    this.state[1] += b;
    this.state[2] += c;
    this.state[3] += d;
  }
}

function turn(word, bits) {
  return (word << bits) | (word >>> (32 - bits));
}

/** The sum of one Uint8Array. */
export function md5(bytes) {
  return new Md5().update(bytes).hex();
}
