// The form above the tables: what it sends, how it tells of errors and waiting.

/** Listen on the document, since the form itself is swapped. */
export function startForm() {
  document.addEventListener("htmx:configRequest", (event) => {
    const { parameters, elt } = event.detail;
    if (!elt.closest("#table-part")) return;
    // what is as usual has no place in an address
    for (const name of [...new Set(parameters.keys())]) {
      const kept = parameters.getAll(name).filter((value) => value !== "");
      parameters.delete(name);
      for (const value of kept) parameters.append(name, value);
    }
  });

  document.addEventListener("htmx:beforeRequest", (event) => busy(event, true));
  document.addEventListener("htmx:afterRequest", (event) => {
    busy(event, false);
    if (event.detail.successful) failed(false);
  });
  for (const kind of ["htmx:responseError", "htmx:sendError", "htmx:timeout"]) {
    document.addEventListener(kind, (event) => {
      // our own abort, because a newer question was asked
      if (isOurs(event)) failed(true);
    });
  }
  document.addEventListener("htmx:afterSettle", markInvalid);
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-search-types]")) searchTypes(event.target);
  });
  document.addEventListener("operators:filter", (event) => filterTypes(event.detail?.types ?? []));
}

function isOurs(event) {
  return Boolean(event.detail.elt?.closest?.("#table-part")) || event.detail.target?.id === "table-part";
}

function busy(event, isBusy) {
  if (!isOurs(event)) return;
  const tables = document.querySelector("#tables");
  if (isBusy) tables?.setAttribute("aria-busy", "true");
  else tables?.removeAttribute("aria-busy");
}

function failed(hasFailed) {
  const notice = document.querySelector("#tables-failed");
  if (notice) notice.hidden = !hasFailed;
}

/** A field is invalid while its place for errors has a text. */
function markInvalid() {
  for (const problem of document.querySelectorAll("#table-part [data-problem-of]")) {
    const field = document.getElementById(problem.dataset.problemOf);
    if (problem.textContent.trim()) field?.setAttribute("aria-invalid", "true");
    else field?.removeAttribute("aria-invalid");
  }
}

function searchTypes(field) {
  const wanted = field.value.trim().toLowerCase();
  for (const choice of document.querySelectorAll("#table-form [data-type]")) {
    choice.hidden = !choice.dataset.type.toLowerCase().includes(wanted);
  }
}

/** Another view asks for the operators of these types. */
function filterTypes(types) {
  const form = document.querySelector("#table-form");
  if (!form) return;
  const wanted = new Set(types);
  for (const box of form.querySelectorAll("input[name=type]")) box.checked = wanted.has(box.value);
  form.elements.namedItem("agg").value = "";
  form.requestSubmit();
  document.querySelector("#part-operators").scrollIntoView({ block: "start" });
}
