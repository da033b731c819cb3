// The API documentation page. The Swagger UI bundle, loaded before this module, defines SwaggerUIBundle.

const container = document.getElementById("api-docs");
const root = document.documentElement;
const darkScheme = matchMedia("(prefers-color-scheme: dark)");

/** Set Swagger's class for dark colours; the user's theme takes precedence over the system's. */
function showColours() {
  const { theme } = root.dataset;
  root.classList.toggle("dark-mode", theme ? theme === "dark" : darkScheme.matches);
}

/** Add the CSRF token, which requests that change data need besides the session cookie. */
function withToken(request) {
  if (request.method && request.method !== "GET") {
    request.headers["X-CSRFToken"] = container.dataset.csrf;
  }
  return request;
}

window.SwaggerUIBundle({
  url: container.dataset.schema,
  domNode: container,
  deepLinking: true,
  docExpansion: "none",
  defaultModelsExpandDepth: 0,
  validatorUrl: null,
  // the contrast of its red numbers on grey is too low
  syntaxHighlight: false,
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  requestInterceptor: withToken,
});

showColours();
darkScheme.addEventListener("change", showColours);
// print in light colours
addEventListener("beforeprint", () => root.classList.remove("dark-mode"));
addEventListener("afterprint", showColours);
