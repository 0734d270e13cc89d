"use strict";
SwaggerUIBundle({
  url: "/openapi.json",
  domNode: document.getElementById("document"),
  presets: [SwaggerUIBundle.presets.apis],
  deepLinking: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
});
