// Where the parts of one upload go: asked of the server ahead of need, several at once.

/** Parts whose addresses are asked for at once. */
const ASKED_AT_ONCE = 16;

export class PartAddresses {
  /**
   * known: [{number, url, headers}], told before anybody asked
   * ask(numbers): promise of the same for these parts
   * left(): numbers of the parts that nobody sends yet, in their order
   * ahead: how many must be known while others are sent
   */
  constructor(known, { ask, left, ahead }) {
    this.ask = ask;
    this.left = left;
    this.ahead = ahead;
    this.known = new Map(known.map((part) => [part.number, part]));
    this.asking = null;
  }

  /** The address of a part, once: another try asks for a new one. Throws what `ask` throws. */
  async take(number) {
    while (!this.known.has(number)) await this.#more(number);
    const address = this.known.get(number);
    this.known.delete(number);
    // if that fails, who needs one asks again
    if (this.known.size < this.ahead) this.#more().catch(() => {});
    return address;
  }

  /** They ran out: ask for all of them anew. */
  forget() {
    this.known.clear();
  }

  #more(...first) {
    this.asking ??= this.#ask(first).finally(() => {
      this.asking = null;
    });
    return this.asking;
  }

  async #ask(first) {
    const others = this.left().filter((number) => !this.known.has(number));
    const numbers = [...first, ...others].slice(0, ASKED_AT_ONCE);
    if (numbers.length === 0) return;
    for (const part of await this.ask(numbers)) this.known.set(part.number, part);
  }
}
