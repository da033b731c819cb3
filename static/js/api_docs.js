// The API documentation page. The Swagger UI bundle, loaded before this module, defines SwaggerUIBundle.

import { isDark, onTheme } from "./theme.js";

const container = document.getElementById("api-docs");
const { classList } = document.documentElement;

/** Set Swagger's class for dark colours. */
function showColours() {
  classList.toggle("dark-mode", isDark());
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
onTheme(showColours);
// print in light colours
addEventListener("beforeprint", () => classList.remove("dark-mode"));
addEventListener("afterprint", showColours);
