// Validate a new password on the server while the user types it.

const PAUSE_MS = 350;

const settings = document.querySelector("#password-check")?.dataset;
const field = document.querySelector("[data-password]");
if (settings && field) watch(field, field.form);

function watch(field, form) {
  const list = document.createElement("ul");
  list.className = "password-check";
  list.setAttribute("role", "status");
  field.closest(".field").append(list);
  const confirmation = form.elements.password2;
  const email = form.elements.email;
  let timer = 0;
  let requestNumber = 0;

  const show = (problems) => {
    const texts = problems.length ? problems : [settings.good];
    list.replaceChildren(...texts.map((text) => line(text, problems.length > 0)));
  };
  const check = async () => {
    const number = (requestNumber += 1);
    const problems = await fetchProblems(form, field.value, email?.value ?? "");
    if (number === requestNumber && problems) show(problems);
  };
  const schedule = () => {
    clearTimeout(timer);
    if (field.value) timer = setTimeout(check, PAUSE_MS);
    else {
      requestNumber += 1;
      list.replaceChildren();
    }
  };
  field.addEventListener("input", schedule);
  // the server rejects a password that is similar to the email address
  email?.addEventListener("change", schedule);
  for (const input of [field, confirmation]) input?.addEventListener("input", () => compare(field, confirmation));
}

/** The server's messages about a password; null without a response, since the form's submission checks it again. */
async function fetchProblems(form, password, email) {
  const body = new URLSearchParams({ password, email });
  body.set("csrfmiddlewaretoken", form.elements.csrfmiddlewaretoken.value);
  try {
    const response = await fetch(settings.url, { method: "POST", body, credentials: "same-origin" });
    return response.ok ? (await response.json()).problems : null;
  } catch {
    return null;
  }
}

function line(text, isProblem) {
  const item = document.createElement("li");
  item.className = isProblem ? "password-check__problem" : "password-check__good";
  item.textContent = `${isProblem ? "✗" : "✓"} ${text}`;
  return item;
}

function compare(field, confirmation) {
  const differs = confirmation?.value && confirmation.value !== field.value;
  confirmation?.setCustomValidity(differs ? settings.unequal : "");
}
