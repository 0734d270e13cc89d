"use strict";
const place = document.getElementById("document");

function level(selector, number) {
  for (const heading of place.querySelectorAll(`${selector}:not([aria-level])`)) heading.setAttribute("aria-level", number);
}

// What readers by other senses meet in Swagger UI's own markup: a link within the button of a call (opening it puts the
// same address in the bar), headings that skip a level, an introduction outside of any landmark.
new MutationObserver(() => {
  for (const link of place.querySelectorAll(".opblock-summary-control a[href]")) link.removeAttribute("href");
  level(":is(h3.opblock-tag, .models h4)", 2);
  level("h4", 3);
  level("h5", 4);
  const about = place.querySelector(".information-container:not([role])");
  if (about) {
    about.setAttribute("role", "region");
    about.setAttribute("aria-label", "About this API");
  }
}).observe(place, {childList: true, subtree: true});

SwaggerUIBundle({
  url: "/openapi.json",
  domNode: place,
  presets: [SwaggerUIBundle.presets.apis],
  deepLinking: true,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
});
