// The entry point in a .zip program: proposed from the archive's file names, or entered by the user.

import { fill, sentences } from "../../format.js";
import { entryOf, namesOf, programsOf } from "./zip_names.js";

/** Programs listed in a message, and suggested at the field. */
const MAX_LISTED = 8;
const MAX_SUGGESTED = 100;

const entry = document.getElementById("entry");
const hint = document.getElementById("entry-status");
const suggestions = document.getElementById("entry-suggestions");

/** The chosen archive: a promise of {name, names}, or of null if it cannot be read. */
let archive = Promise.resolve(null);
/** The last proposed entry point; the field is replaced only while it still has this value. */
let proposed = "";

/** Read the file names of each archive that the user chooses, and propose an entry point. */
export function setUpEntry(chooser) {
  chooser.addEventListener("change", () => {
    const file = chooser.files[0];
    const promise = readArchive(file).catch(() => null);
    archive = promise;
    promise.then((contents) => {
      if (archive === promise) propose(contents);
    });
  });
}

/** Validate the entry point against the chosen zip; calls `showProblem` with the message. */
export async function checkEntry(texts, showProblem) {
  const contents = await archive;
  const path = entry.value.trim();
  const programs = contents ? programsOf(contents.names) : null;
  if (programs && !programs.length) showProblem(fill(texts.noPrograms, { name: contents.name }));
  else if (!path) showProblem(sentences([texts.noEntry, programs && fill(hint.dataset.names, { names: join(programs) })]));
  else if (contents && !contents.names.includes(path)) {
    showProblem(fill(texts.entryGone, { entry: path, name: contents.name, names: join(programs) }));
  }
}

async function readArchive(file) {
  if (!file || !/\.zip$/i.test(file.name)) return null;
  const names = await namesOf(file);
  return names && { name: file.name, names };
}

function propose(contents) {
  const programs = contents ? programsOf(contents.names) : [];
  const best = contents ? entryOf(contents.names) : "";
  suggestions.replaceChildren(...programs.slice(0, MAX_SUGGESTED).map((name) => new Option("", name)));
  if (entry.value.trim() === proposed) {
    proposed = entry.value = best;
    entry.dispatchEvent(new Event("input", { bubbles: true }));
  }
  const text = best && entry.value === best ? hint.dataset.taken : hint.dataset.names;
  hint.textContent = programs.length ? fill(text, { entry: best, names: join(programs) }) : "";
}

function join(programs) {
  return programs.slice(0, MAX_LISTED).join(", ") + (programs.length > MAX_LISTED ? ", …" : "");
}
