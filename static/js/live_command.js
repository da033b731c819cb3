// The command line under the form: asked of the server, which knows the rules, at every change.

import { clearErrors, showProblems } from "./form_errors.js";
import { fill } from "./format.js";
import { showUnavailable } from "./option_form.js";
import { NoAnswer, Refusal, postJson } from "./requests.js";

const WAIT_MS = 200;

export class LiveCommand {
  /** read: returns the draft of the task, as the server takes it */
  constructor(read, login) {
    this.box = document.getElementById("command");
    this.lines = document.getElementById("command-lines");
    this.read = read;
    this.login = login;
    this.timer = null;
    this.asked = 0;
  }

  /** Ask soon; several changes in a row become one question. */
  ask() {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.check(), WAIT_MS);
  }

  /** Ask now and show the answer. Returns whether anything is wrong with what was asked. */
  async check() {
    window.clearTimeout(this.timer);
    this.asked += 1;
    const number = this.asked;
    let answer;
    try {
      answer = await postJson(this.box.dataset.url, this.read(), { login: this.login });
    } catch (error) {
      // the task itself is checked again when it is sent
      if (error instanceof NoAnswer || error instanceof Refusal) return false;
      throw error;
    }
    if (number !== this.asked) return false;
    showUnavailable(answer.unavailable, answer.libraries);
    clearErrors("live");
    showProblems(answer.problems);
    this.#show(answer.commands);
    return answer.problems.length > 0;
  }

  #show(commands) {
    document.getElementById("command-wrong").hidden = commands.length > 0;
    this.lines.replaceChildren(
      ...commands.map(({ label, processes, line }) => {
        const pass = document.getElementById("command-line").content.cloneNode(true).firstElementChild;
        const times = processes > 1 ? ` · ${fill(this.box.dataset.processes, { number: processes })}` : "";
        pass.querySelector(".command__label").textContent = label + times;
        pass.querySelector(".command__text").textContent = line;
        return pass;
      }),
    );
  }
}
