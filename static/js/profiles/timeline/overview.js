// The overview of a trace: the user selects a time range and lanes by mouse or keyboard.

import { bytesize, fill } from "../../format.js";
import { estimate, roundOutward, shortTime } from "./estimate.js";

/** A drag by fewer pixels is a click and selects nothing. */
const MIN_DRAG_PX = 4;

/**
 * Set up the overview in `form`.
 *
 * show(range): shows a cut, {begin_s, end_s, lanes} with lanes null for all, or null for the whole trace
 * openFile(): shows the unchanged file
 */
export function makeOverview(form, { show, openFile }) {
  const overview = JSON.parse(form.querySelector("#overview-data").textContent);
  const find = (name) => form.querySelector(`[data-overview="${name}"]`);
  const [area, frame, begin, end, about] = ["area", "window", "begin", "end", "about"].map(find);
  const fields = [form.elements.begin_s, form.elements.end_s];
  const boxes = [...form.querySelectorAll('input[name="lane"]')];
  const submit = form.querySelector("[type=submit]");
  const length = overview.end_s - overview.begin_s;
  const steps = Number(begin.max);

  const fractionOf = (time) => (length > 0 ? (time - overview.begin_s) / length : 0);
  const timeOf = (fraction) => overview.begin_s + fraction * length;
  const clamp = (fraction) => Math.min(1, Math.max(0, fraction));

  function lanes() {
    const selected = boxes.filter((box) => box.checked).map((box) => box.value);
    return selected.length === boxes.length ? null : selected;
  }

  function range() {
    const [begin_s, end_s] = fields.map((field) => Number.parseFloat(field.value));
    return { begin_s, end_s, lanes: lanes() };
  }

  /** Set the range. The number fields are the state; `update` derives everything else from them. */
  function setRange(begin_s, end_s) {
    [fields[0].value, fields[1].value] = roundOutward(begin_s, end_s, length);
    update();
  }

  /** Round a time to the precision of a pointer. */
  const rounded = (time) => Number(shortTime(time, length));

  const setFirst = () => setRange(overview.first[0], rounded(overview.first[1]));

  /** Update the frame, the sliders and the estimate from the number fields. */
  function update() {
    const selection = range();
    const isComplete = Number.isFinite(selection.begin_s) && Number.isFinite(selection.end_s);
    const reversed = isComplete && selection.begin_s > selection.end_s;
    fields[1].setCustomValidity(reversed ? form.dataset.reversed : "");
    if (!isComplete) return;
    const fractions = [selection.begin_s, selection.end_s].map((time) => clamp(fractionOf(time)));
    frame.style.left = `${100 * fractions[0]}%`;
    frame.style.width = `${100 * Math.max(0, fractions[1] - fractions[0])}%`;
    for (const [i, slider] of [begin, end].entries()) {
      slider.value = Math.round(fractions[i] * steps);
      const value = shortTime(i ? selection.end_s : selection.begin_s, length);
      slider.setAttribute("aria-valuetext", fill(form.dataset.seconds, { value }));
    }
    showEstimate(selection, reversed);
  }

  function showEstimate(selection, reversed) {
    const { events, bytes } = estimate(overview, selection, selection.lanes);
    const isLarge = bytes > overview.limit_bytes;
    const values = {
      events: events.toLocaleString("en").replaceAll(",", " "),
      size: bytesize(bytes),
      limit: bytesize(overview.limit_bytes),
    };
    const isEmpty = selection.lanes !== null && selection.lanes.length === 0;
    about.textContent = reversed
      ? form.dataset.reversed
      : isEmpty
        ? form.dataset.none
        : fill(isLarge ? form.dataset.large : form.dataset.about, values);
    about.dataset.kind = isLarge || reversed || isEmpty ? "problem" : "";
    submit.disabled = isEmpty;
  }

  // -- by mouse ----------------------------------------------------------------------------------

  let drag = null;
  const fractionAt = (event) => {
    const box = area.getBoundingClientRect();
    return clamp((event.clientX - box.left) / box.width);
  };

  area.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    drag = { x: event.clientX, fraction: fractionAt(event) };
    area.setPointerCapture(event.pointerId);
  });
  area.addEventListener("pointermove", (event) => {
    if (drag === null || Math.abs(event.clientX - drag.x) < MIN_DRAG_PX) return;
    const ends = [drag.fraction, fractionAt(event)].sort((a, b) => a - b);
    setRange(...ends.map((fraction) => rounded(timeOf(fraction))));
  });
  for (const name of ["pointerup", "pointercancel"]) {
    area.addEventListener(name, () => {
      drag = null;
    });
  }

  // -- by keyboard -------------------------------------------------------------------------------

  for (const slider of [begin, end]) {
    slider.addEventListener("input", () => {
      const time = Number(slider.value) === steps ? overview.end_s : timeOf(Number(slider.value) / steps);
      const value = time === overview.end_s ? time : rounded(time);
      const selection = range();
      if (slider === begin) setRange(value, Math.max(value, selection.end_s));
      else setRange(Math.min(value, selection.begin_s), value);
    });
  }
  form.addEventListener("input", (event) => {
    if (fields.includes(event.target) || boxes.includes(event.target)) update();
  });

  // -- buttons -----------------------------------------------------------------------------------

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show(range());
  });
  find("first")?.addEventListener("click", () => {
    setFirst();
    show(range());
  });
  find("whole")?.addEventListener("click", () => {
    for (const box of boxes) box.checked = true;
    setRange(overview.begin_s, overview.end_s);
    show(null);
  });
  find("file")?.addEventListener("click", openFile);

  return {
    /**
     * Set and return the initial range: `requested` if there is one, otherwise the first part of a large
     * trace, otherwise null for the whole trace.
     */
    begin(requested) {
      if (requested?.lanes) for (const box of boxes) box.checked = requested.lanes.includes(box.value);
      if (requested) setRange(requested.begin_s, requested.end_s);
      else if (overview.first) setFirst();
      else setRange(overview.begin_s, overview.end_s);
      return requested || overview.first ? range() : null;
    },
  };
}
