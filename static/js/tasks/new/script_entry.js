// The program within a .zip that is started: found in its list of files, or asked for.

import { fill, sentences } from "../../format.js";
import { entryOf, namesOf, programsOf } from "./zip_names.js";

/** programs that a sentence names; the field offers more */
const NAMED = 8;
const OFFERED = 100;

const entry = document.getElementById("entry");
const found = document.getElementById("entry-found");
const offered = document.getElementById("entry-offered");

/** What the chosen archive holds: a promise of {name, names}, or of null where nothing is known. */
let archive = Promise.resolve(null);
/** what was written here by us, and may be replaced */
let proposed = "";

/** Look into each program that is chosen. */
export function setUpEntry(chooser) {
  chooser.addEventListener("change", () => {
    const file = chooser.files[0];
    const looking = look(file).catch(() => null);
    archive = looking;
    looking.then((known) => {
      if (archive === looking) propose(known);
    });
  });
}

/** What is wrong with the entry point of the zip that is chosen: calls `tell` with words. */
export async function checkEntry(texts, tell) {
  const known = await archive;
  const wanted = entry.value.trim();
  const programs = known ? programsOf(known.names) : null;
  if (programs && !programs.length) tell(fill(texts.noPrograms, { name: known.name }));
  else if (!wanted) tell(sentences([texts.noEntry, programs && fill(found.dataset.names, { names: listed(programs) })]));
  else if (known && !known.names.includes(wanted)) {
    tell(fill(texts.entryGone, { entry: wanted, name: known.name, names: listed(programs) }));
  }
}

async function look(file) {
  if (!file || !/\.zip$/i.test(file.name)) return null;
  const names = await namesOf(file);
  return names && { name: file.name, names };
}

function propose(known) {
  const programs = known ? programsOf(known.names) : [];
  const best = known ? entryOf(known.names) : "";
  offered.replaceChildren(...programs.slice(0, OFFERED).map((name) => new Option("", name)));
  if (entry.value.trim() === proposed) {
    proposed = entry.value = best;
    entry.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const text = best && entry.value === best ? found.dataset.taken : found.dataset.names;
  found.textContent = programs.length ? fill(text, { entry: best, names: listed(programs) }) : "";
}

function listed(programs) {
  return programs.slice(0, NAMED).join(", ") + (programs.length > NAMED ? ", …" : "");
}
