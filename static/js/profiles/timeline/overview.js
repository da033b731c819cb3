// The lanes of a trace over time: which part of it is to be shown, chosen by mouse or keyboard.

import { bytesize, fill } from "../../format.js";
import { estimate, outward, shortTime } from "./estimate.js";

/** a press that moves less chooses nothing */
const LEAST_PIXELS = 4;

/**
 * `show(range)` is called with what is to be shown: {begin_s, end_s, lanes}, lanes null for all;
 * null for the whole trace. `openFile()`: the file as it is.
 */
export function makeOverview(form, { show, openFile }) {
  const told = JSON.parse(form.querySelector("#overview-data").textContent);
  const find = (name) => form.querySelector(`[data-overview="${name}"]`);
  const [area, frame, begin, end, about] = ["area", "window", "begin", "end", "about"].map(find);
  const fields = [form.elements.begin_s, form.elements.end_s];
  const boxes = [...form.querySelectorAll('input[name="lane"]')];
  const submit = form.querySelector("[type=submit]");
  const length = told.end_s - told.begin_s;
  const steps = Number(begin.max);

  const partOf = (at) => (length > 0 ? (at - told.begin_s) / length : 0);
  const timeOf = (part) => told.begin_s + part * length;
  const within = (part) => Math.min(1, Math.max(0, part));

  function lanes() {
    const chosen = boxes.filter((box) => box.checked).map((box) => box.value);
    return chosen.length === boxes.length ? null : chosen;
  }

  function range() {
    const [begin_s, end_s] = fields.map((field) => Number.parseFloat(field.value));
    return { begin_s, end_s, lanes: lanes() };
  }

  /** The number fields hold the range; all else follows. */
  function put(begin_s, end_s) {
    [fields[0].value, fields[1].value] = outward(begin_s, end_s, length);
    follow();
  }

  /** As exact as a pointer is. */
  const rounded = (at) => Number(shortTime(at, length));

  const putFirst = () => put(told.first[0], rounded(told.first[1]));

  function follow() {
    const chosen = range();
    const known = Number.isFinite(chosen.begin_s) && Number.isFinite(chosen.end_s);
    const reversed = known && chosen.begin_s > chosen.end_s;
    fields[1].setCustomValidity(reversed ? form.dataset.reversed : "");
    if (!known) return;
    const parts = [chosen.begin_s, chosen.end_s].map((at) => within(partOf(at)));
    frame.style.left = `${100 * parts[0]}%`;
    frame.style.width = `${100 * Math.max(0, parts[1] - parts[0])}%`;
    for (const [place, slider] of [begin, end].entries()) {
      slider.value = Math.round(parts[place] * steps);
      const value = shortTime(place ? chosen.end_s : chosen.begin_s, length);
      slider.setAttribute("aria-valuetext", fill(form.dataset.seconds, { value }));
    }
    say(chosen, reversed);
  }

  function say(chosen, reversed) {
    const { events, bytes } = estimate(told, chosen, chosen.lanes);
    const isLarge = bytes > told.limit_bytes;
    const values = {
      events: events.toLocaleString("en").replaceAll(",", " "),
      size: bytesize(bytes),
      limit: bytesize(told.limit_bytes),
    };
    const nothing = chosen.lanes !== null && chosen.lanes.length === 0;
    about.textContent = reversed
      ? form.dataset.reversed
      : nothing
        ? form.dataset.none
        : fill(isLarge ? form.dataset.large : form.dataset.about, values);
    about.dataset.kind = isLarge || reversed || nothing ? "problem" : "";
    submit.disabled = nothing;
  }

  // -- by mouse ----------------------------------------------------------------------------------

  let pressed = null;
  const partAt = (event) => {
    const box = area.getBoundingClientRect();
    return within((event.clientX - box.left) / box.width);
  };

  area.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    pressed = { at: event.clientX, part: partAt(event) };
    area.setPointerCapture(event.pointerId);
  });
  area.addEventListener("pointermove", (event) => {
    if (pressed === null || Math.abs(event.clientX - pressed.at) < LEAST_PIXELS) return;
    const ends = [pressed.part, partAt(event)].sort((one, other) => one - other);
    put(...ends.map((part) => rounded(timeOf(part))));
  });
  for (const name of ["pointerup", "pointercancel"]) {
    area.addEventListener(name, () => {
      pressed = null;
    });
  }

  // -- by keyboard -------------------------------------------------------------------------------

  for (const slider of [begin, end]) {
    slider.addEventListener("input", () => {
      const at = Number(slider.value) === steps ? told.end_s : timeOf(Number(slider.value) / steps);
      const value = at === told.end_s ? at : rounded(at);
      const chosen = range();
      if (slider === begin) put(value, Math.max(value, chosen.end_s));
      else put(Math.min(value, chosen.begin_s), value);
    });
  }
  form.addEventListener("input", (event) => {
    if (fields.includes(event.target) || boxes.includes(event.target)) follow();
  });

  // -- what is shown -----------------------------------------------------------------------------

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show(range());
  });
  find("first")?.addEventListener("click", () => {
    putFirst();
    show(range());
  });
  find("whole")?.addEventListener("click", () => {
    for (const box of boxes) box.checked = true;
    put(told.begin_s, told.end_s);
    show(null);
  });
  find("file")?.addEventListener("click", openFile);

  return {
    /** Begin with what was asked for, else with all, else with the first part; returns it. */
    begin(asked) {
      if (asked?.lanes) for (const box of boxes) box.checked = asked.lanes.includes(box.value);
      if (asked) put(asked.begin_s, asked.end_s);
      else if (told.first) putFirst();
      else put(told.begin_s, told.end_s);
      return asked || told.first ? range() : null;
    },
  };
}
