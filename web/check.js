// Says in one line what keeps the page from working. No module, so that it runs where modules do not.

(function () {
  "use strict";
  var simd = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];
  var current = "use a current Firefox, Chrome, Edge or Safari.";
  var missing = "";
  if (location.protocol === "file:") {
    missing = "Browsers load no model from a file: run python -m http.server in this folder and open http://localhost:8000.";
  } else if (typeof WebAssembly !== "object") {
    missing = "This browser has no WebAssembly (or it is switched off), which the model runs on: " + current;
  } else if (!WebAssembly.validate(new Uint8Array(simd))) {
    missing = "This browser's WebAssembly has no vector instructions, which the model runs on: " + current;
  } else if (typeof Worker !== "function" || typeof DecompressionStream !== "function") {
    missing = "This browser is too old to unpack the model: " + current;
  }
  var status = document.getElementById("status");
  status.textContent = missing || "Fetching the model …";
  if (missing) status.className += " wrong";
})();
