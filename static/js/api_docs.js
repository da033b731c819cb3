/* The API's schema as a page. The bundle before this module defines SwaggerUIBundle. */

const place = document.getElementById("api-docs");

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
  presets: [window.SwaggerUIBundle.presets.apis],
  layout: "BaseLayout",
  requestInterceptor: withToken,
});
