// The command line under the form: asked of the server, which knows the rules, at every change.

import { fill } from "../../format.js";
import { toJson } from "../../numbers.js";
import { NoAnswer, Refusal, postJson } from "../../requests.js";
import { clearErrors, showImpossible, showProblems } from "./form_errors.js";
import { showUnavailable } from "./option_form.js";

const WAIT_MS = 200;
/** until a question that the server did not answer is asked again */
const AGAIN_MS = 10_000;
/** how long a request that the server found right is not asked about again when it is sent */
const FRESH_MS = 60_000;

export class LiveCommand {
  /** read: returns the draft of the task, as the server takes it; onAnswer: told after each check */
  constructor(read, { login, onAnswer }) {
    this.box = document.getElementById("command");
    this.lines = document.getElementById("command-lines");
    this.read = read;
    this.login = login;
    this.onAnswer = onAnswer;
    this.timer = null;
    this.asked = 0;
    this.latest = null;
    /** the last request in which nothing was wrong, {text, until}; null if something is */
    this.right = null;
    /** why the last question has no answer; empty if it has one */
    this.failure = "";
    window.addEventListener("online", () => this.ask());
  }

  /** Ask soon; several changes in a row become one question. */
  ask() {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.check(), WAIT_MS);
  }

  /** Ask now and show the answer. Returns whether the server found nothing wrong. */
  check() {
    window.clearTimeout(this.timer);
    this.asked += 1;
    this.latest = this.#check(this.asked);
    return this.latest;
  }

  /** As `check`, without a question if the server has just found this very request right. */
  async confirm() {
    const { text, until } = this.right ?? {};
    if (text !== toJson(this.read()) || Date.now() > until) return this.check();
    window.clearTimeout(this.timer);
    // what is still on its way must not change what the form says from now on
    this.asked += 1;
    this.latest = Promise.resolve(true);
    return this.latest;
  }

  async #check(number) {
    const draft = this.read();
    let answer;
    try {
      answer = await postJson(this.box.dataset.url, draft, { login: this.login });
    } catch (error) {
      return number === this.asked ? this.#fail(error) : this.latest;
    }
    // a later question was asked meanwhile, and its answer counts
    if (number !== this.asked) return this.latest;
    this.#say("");
    if (answer.refusal?.code === "invalid") return this.#tellUnread(answer.problems);
    const impossible = showUnavailable(answer.unavailable, answer.libraries);
    const told = new Set(answer.problems.map(({ field }) => field));
    const problems = [...answer.problems, ...impossible.filter(({ field }) => !told.has(field))];
    showImpossible(impossible.map(({ field }) => field));
    this.#show(answer.commands);
    this.right = problems.length ? null : { text: toJson(draft), until: Date.now() + FRESH_MS };
    return this.#tell(problems);
  }

  /** Show what is wrong, each at its field. Returns whether nothing is. */
  #tell(problems) {
    clearErrors("live");
    showProblems(problems);
    document.getElementById("command-wrong").hidden = problems.length === 0;
    this.onAnswer();
    return problems.length === 0;
  }

  /** Show which fields cannot be read; of the rest nothing is known. Returns false. */
  #tellUnread(problems) {
    this.right = null;
    this.#show([]);
    return this.#tell(problems);
  }

  /** Show that nobody knows whether the request is right. Returns false. */
  #fail(error) {
    this.right = null;
    if (error instanceof Refusal) this.#say(error.message);
    else if (error instanceof NoAnswer) {
      this.#say(this.box.dataset.unchecked);
      this.timer = window.setTimeout(() => this.check(), AGAIN_MS);
    } else throw error;
    this.#show([]);
    document.getElementById("command-wrong").hidden = true;
    this.onAnswer();
    return false;
  }

  #say(failure) {
    const place = document.getElementById("command-failed");
    this.failure = failure;
    place.textContent = failure;
    place.hidden = !failure;
  }

  #show(commands) {
    this.lines.replaceChildren(
      ...commands.map(({ title, processes, line }) => {
        const pass = document.getElementById("command-line").content.cloneNode(true).firstElementChild;
        const times = processes > 1 ? ` · ${fill(this.box.dataset.processes, { number: processes })}` : "";
        pass.querySelector(".command__label").textContent = title + times;
        pass.querySelector(".command__text").textContent = line;
        return pass;
      }),
    );
  }
}
