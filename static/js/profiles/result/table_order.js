// Where each operator stands in a table, learnt while the page is idle: a selection need not ask.

/** Who goes on typing or sorting has another table before this one is asked for. */
const REST_MS = 400;
/** Names and types of all operators, the same for each table of a page. */
let names = null;

export class TableOrder {
  /**
   * scroller: with `data-order-url` and `data-names-url`, if there is anything to learn
   * fetchJson(url): the server's answer
   */
  constructor(scroller, fetchJson) {
    this.url = scroller.dataset.orderUrl;
    this.namesUrl = scroller.dataset.namesUrl;
    this.fetchJson = fetchJson;
    this.places = null;
    this.ended = false;
    if (this.url) this.timer = setTimeout(() => whenIdle(() => this.#learn()), REST_MS);
  }

  end() {
    this.ended = true;
    clearTimeout(this.timer);
  }

  /** An operator's place; null if it is not in the table, undefined while that is not known. */
  placeOf(operator) {
    return this.places ? (this.places.get(operator) ?? null) : undefined;
  }

  /** An operator's `name` and `type`; they are known where places are. */
  named(operator) {
    return { name: names.names[operator], type: names.type_names[names.types[operator]] ?? "" };
  }

  async #learn() {
    if (this.ended) return;
    try {
      names ??= await this.fetchJson(this.namesUrl);
      if (this.ended) return;
      const { rows } = await this.fetchJson(this.url);
      this.places = new Map(rows.map((operator, place) => [operator, place]));
    } catch {
      // a selection then asks for its place
    }
  }
}

function whenIdle(act) {
  if ("requestIdleCallback" in window) requestIdleCallback(act, { timeout: 2_000 });
  else act();
}
