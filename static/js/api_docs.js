/* The API's schema as a page. The bundle before this module defines SwaggerUIBundle. */

const place = document.getElementById("api-docs");
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

/** Swagger's dark colours hang on a class; what the reader chose goes before the system's. */
function showColours() {
  const { theme } = root.dataset;
  root.classList.toggle("dark-mode", theme ? theme === "dark" : system.matches);
}

/** The session's cookie goes along by itself; what changes something also needs its token. */
function withToken(request) {
  if (request.method && request.method !== "GET") {
    request.headers["X-CSRFToken"] = place.dataset.csrf;
  }
  return request;
}

window.SwaggerUIBundle({
  url: place.dataset.schema,
  domNode: place,
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  // its red numbers on grey cannot be read by everybody
  syntaxHighlight: false,
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  requestInterceptor: withToken,
});

showColours();
system.addEventListener("change", showColours);
// paper is light
addEventListener("beforeprint", () => root.classList.remove("dark-mode"));
addEventListener("afterprint", showColours);
