// How fast something goes, and how long it will take.

const WINDOW_MS = 6_000;

export class Pace {
  constructor() {
    this.samples = [];
  }

  /** Note how many bytes have arrived by now; they may have become fewer. */
  note(bytes, now = performance.now()) {
    this.samples.push({ bytes, now });
    while (this.samples.length > 2 && this.samples[0].now < now - WINDOW_MS) this.samples.shift();
  }

  /** Forget what was before a pause. */
  reset() {
    this.samples = [];
  }

  /** Bytes a second over the last seconds, null while nobody knows. */
  speed() {
    const first = this.samples[0];
    const last = this.samples.at(-1);
    if (!last || last.now - first.now < 500 || last.bytes <= first.bytes) return null;
    return ((last.bytes - first.bytes) / (last.now - first.now)) * 1_000;
  }
}

/** A time that is left, s: "8 s", "3 min", "1 h 20 min". */
export function timeLeft(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.ceil(seconds))} s`;
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
