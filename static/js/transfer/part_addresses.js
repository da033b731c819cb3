// Presigned URLs for the parts of one upload, requested from the server in batches and ahead of need.

/** Parts per request to the server. */
const BATCH_SIZE = 16;

export class PartAddresses {
  /**
   * addresses: [{number, url, headers}], the addresses that came with the upload
   * fetchAddresses(numbers): promise of the addresses of these parts
   * remaining(): the numbers of the parts that are not being sent yet, in order
   * ahead: request more when fewer than this many addresses are known
   */
  constructor(addresses, { fetchAddresses, remaining, ahead }) {
    this.fetchAddresses = fetchAddresses;
    this.remaining = remaining;
    this.ahead = ahead;
    this.addresses = new Map(addresses.map((part) => [part.number, part]));
    this.pending = null;
  }

  /**
   * Return the address of a part and remove it; a retry gets a new one. Throws the errors of
   * `fetchAddresses`.
   */
  async take(number) {
    while (!this.addresses.has(number)) await this.#more(number);
    const address = this.addresses.get(number);
    this.addresses.delete(number);
    // a failure is ignored: the next `take` without a known address requests again
    if (this.addresses.size < this.ahead) this.#more().catch(() => {});
    return address;
  }

  /** Drop all addresses, because they have expired. */
  clear() {
    this.addresses.clear();
  }

  #more(...first) {
    this.pending ??= this.#fetch(first).finally(() => {
      this.pending = null;
    });
    return this.pending;
  }

  async #fetch(first) {
    const others = this.remaining().filter((number) => !this.addresses.has(number));
    const numbers = [...first, ...others].slice(0, BATCH_SIZE);
    if (numbers.length === 0) return;
    for (const part of await this.fetchAddresses(numbers)) this.addresses.set(part.number, part);
  }
}
