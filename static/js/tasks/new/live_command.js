// The command lines below the form: the server validates the request and builds them at every change.

import { fill } from "../../format.js";
import { toJson } from "../../numbers.js";
import { NoAnswer, Refusal, postJson } from "../../requests.js";
import { clearErrors, showImpossible, showProblems } from "./form_errors.js";
import { showUnavailable } from "./option_form.js";

const WAIT_MS = 200;
/** Wait before a request without a response is repeated. */
const RETRY_MS = 10_000;
/** How long a successful validation counts at submission. */
const VALID_MS = 60_000;

export class LiveCommand {
  /**
   * readDraft(): returns the draft of the task in the API's format
   * onChecked(): called after each validation
   */
  constructor(readDraft, { login, onChecked }) {
    this.box = document.getElementById("command");
    this.lines = document.getElementById("command-lines");
    this.readDraft = readDraft;
    this.login = login;
    this.onChecked = onChecked;
    this.timer = null;
    this.requestNumber = 0;
    this.latest = null;
    /** The request of the last validation, {text, until}, if it had no problems; otherwise null. */
    this.lastValid = null;
    /** Why the last validation failed; empty if it succeeded. */
    this.failure = "";
    window.addEventListener("online", () => this.schedule());
  }

  /** Validate soon; several changes in a row become one request. */
  schedule() {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.check(), WAIT_MS);
  }

  /** Validate now and show the result. Returns whether the request has no problems. */
  check() {
    window.clearTimeout(this.timer);
    this.requestNumber += 1;
    this.latest = this.#check(this.requestNumber);
    return this.latest;
  }

  /** Like `check`, but without a request if the server has just validated the same draft. */
  async confirm() {
    const { text, until } = this.lastValid ?? {};
    if (text !== toJson(this.readDraft()) || Date.now() > until) return this.check();
    window.clearTimeout(this.timer);
    // discard the responses of requests in flight, which would change the form
    this.requestNumber += 1;
    this.latest = Promise.resolve(true);
    return this.latest;
  }

  async #check(number) {
    const draft = this.readDraft();
    let result;
    try {
      result = await postJson(this.box.dataset.url, draft, { login: this.login });
    } catch (error) {
      return number === this.requestNumber ? this.#fail(error) : this.latest;
    }
    // a later request was sent in the meantime, and its response counts
    if (number !== this.requestNumber) return this.latest;
    this.#showFailure("");
    if (result.refusal?.code === "invalid") return this.#showInvalid(result.problems);
    const impossible = showUnavailable(result.unavailable, result.libraries);
    const fields = new Set(result.problems.map(({ field }) => field));
    const problems = [...result.problems, ...impossible.filter(({ field }) => !fields.has(field))];
    showImpossible(impossible.map(({ field }) => field));
    this.#showCommands(result.commands);
    this.lastValid = problems.length ? null : { text: toJson(draft), until: Date.now() + VALID_MS };
    return this.#showProblems(problems);
  }

  /** Show each problem at its field. Returns whether there is none. */
  #showProblems(problems) {
    clearErrors("live");
    showProblems(problems);
    document.getElementById("command-invalid").hidden = problems.length === 0;
    this.onChecked();
    return problems.length === 0;
  }

  /** Show which fields the server could not parse; it has not validated the others. Returns false. */
  #showInvalid(problems) {
    this.lastValid = null;
    this.#showCommands([]);
    return this.#showProblems(problems);
  }

  /** Show that the validation itself failed. Returns false. */
  #fail(error) {
    this.lastValid = null;
    if (error instanceof Refusal) this.#showFailure(error.message);
    else if (error instanceof NoAnswer) {
      this.#showFailure(this.box.dataset.unchecked);
      if (error.status !== 401) this.timer = window.setTimeout(() => this.check(), RETRY_MS);
    } else throw error;
    this.#showCommands([]);
    document.getElementById("command-invalid").hidden = true;
    this.onChecked();
    return false;
  }

  #showFailure(failure) {
    const message = document.getElementById("command-failed");
    this.failure = failure;
    message.textContent = failure;
    message.hidden = !failure;
  }

  #showCommands(commands) {
    this.lines.replaceChildren(
      ...commands.map(({ title, processes, line, arm }) => {
        const pass = document.getElementById("command-line").content.cloneNode(true).firstElementChild;
        const times = processes > 1 ? ` · ${fill(this.box.dataset.processes, { number: processes })}` : "";
        pass.querySelector(".command__label").textContent = (arm ? `${arm} · ${title}` : title) + times;
        pass.querySelector(".command__text").append(...wordsOf(line));
        return pass;
      }),
    );
  }
}

/** The words of a command as elements, in which a line breaks only if a word is longer: not after "--". */
function wordsOf(line) {
  return line.split(/( )/).map((word) => {
    if (word === " ") return word;
    const element = document.createElement("span");
    element.className = "command__word";
    element.textContent = word;
    return element;
  });
}
