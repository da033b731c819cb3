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

const partAt = (path, schema) => path.reduce((part, name) => part[name], schema);

/** Copy a part of the schema, with references and `allOf` replaced by what they lead to. */
function replaceReferences(part, schema) {
  if (Array.isArray(part)) return part.map((item) => replaceReferences(item, schema));
  if (part === null || typeof part !== "object") return part;
  const { $ref: reference, allOf = [], ...others } = part;
  if (reference) return replaceReferences(partAt(reference.slice("#/".length).split("/"), schema), schema);
  const copies = Object.entries(others).map(([name, value]) => [name, replaceReferences(value, schema)]);
  return Object.assign({}, ...replaceReferences(allOf, schema), Object.fromEntries(copies));
}

/**
 * A plugin that resolves parts of the schema, all references of which are local and none recursive. Swagger's own
 * function for OpenAPI 3.1 converts the whole schema each time, which takes a second for each opened operation.
 */
const resolvesLocally = {
  fn: {
    resolveSubtree: async (schema, path) => ({ spec: replaceReferences(partAt(path, schema), schema), errors: [] }),
  },
};

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
  plugins: [resolvesLocally],
  layout: "BaseLayout",
  requestInterceptor: withToken,
});

showColours();
onTheme(showColours);
// print in light colours
addEventListener("beforeprint", () => classList.remove("dark-mode"));
addEventListener("afterprint", showColours);
