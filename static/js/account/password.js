// Says while a new password is typed what the server would say of it.

const PAUSE_MS = 350;

const settings = document.querySelector("#password-check")?.dataset;
const field = document.querySelector("[data-password]");
if (settings && field) watch(field, field.form);

function watch(field, form) {
  const list = document.createElement("ul");
  list.className = "password-check";
  list.setAttribute("role", "status");
  field.closest(".field").append(list);
  const again = form.elements.password2;
  const email = form.elements.email;
  let timer = 0;
  let asked = 0;

  const show = (problems) => {
    const texts = problems.length ? problems : [settings.good];
    list.replaceChildren(...texts.map((text) => line(text, problems.length > 0)));
  };
  const ask = async () => {
    const turn = (asked += 1);
    const problems = await problemsOf(form, field.value, email?.value ?? "");
    if (turn === asked && problems) show(problems);
  };
  const later = () => {
    clearTimeout(timer);
    if (field.value) timer = setTimeout(ask, PAUSE_MS);
    else {
      asked += 1;
      list.replaceChildren();
    }
  };
  field.addEventListener("input", later);
  // a password that is like the address is a weak one
  email?.addEventListener("change", later);
  for (const each of [field, again]) each?.addEventListener("input", () => compare(field, again));
}

/** Texts of what is wrong; null if the server cannot say now: it will say when the form is sent. */
async function problemsOf(form, password, email) {
  const body = new URLSearchParams({ password, email });
  body.set("csrfmiddlewaretoken", form.elements.csrfmiddlewaretoken.value);
  try {
    const answer = await fetch(settings.url, { method: "POST", body, credentials: "same-origin" });
    return answer.ok ? (await answer.json()).problems : null;
  } catch {
    return null;
  }
}

function line(text, wrong) {
  const item = document.createElement("li");
  item.className = wrong ? "password-check__problem" : "password-check__good";
  item.textContent = `${wrong ? "✗" : "✓"} ${text}`;
  return item;
}

function compare(field, again) {
  const differs = again?.value && again.value !== field.value;
  again?.setCustomValidity(differs ? settings.unequal : "");
}
