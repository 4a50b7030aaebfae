// While an answer is on its way, the old one dims; after a moment there are the seconds so far, and a way to cancel.

import { element } from "./dom.js";

const SOON = 300; // milliseconds until the status says what is being done
const LONG = 1000; // until one can cancel
const current = new WeakMap(); // of each view, the wait that is going on in it

/** Begin to wait in a view; `say` tells what is `doing`. Returns what ends the wait. */
export function wait(view, doing, say, asking) {
  current.get(view)?.end();
  view.classList.add("waiting");
  view.setAttribute("aria-busy", "true");
  const began = performance.now();
  const bar = element("p", { class: "wait" });
  const seconds = element("span", { "aria-hidden": "true" }); // not read out every second
  const button = element("button", { type: "button" }, "Cancel");
  button.addEventListener("click", () => {
    asking.abort();
    end();
    say("Cancelled.");
    view.querySelector("textarea").focus();
  });
  bar.append(seconds, " ", button);
  const soon = setTimeout(() => say(`${doing} …`), SOON);
  const long = setTimeout(() => view.querySelector("[role=status]").after(bar), LONG);
  const tick = setInterval(() => { seconds.textContent = `${Math.round((performance.now() - began) / 1000)} s`; }, 500);
  function end() {
    for (const timer of [soon, long, tick]) clearTimeout(timer);
    bar.remove();
    if (current.get(view)?.end !== end) return; // another wait has begun since
    current.delete(view);
    view.classList.remove("waiting");
    view.removeAttribute("aria-busy");
  }
  current.set(view, { end });
  return end;
}
