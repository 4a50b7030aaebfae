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
  const soon = setTimeout(() => say(`${doing} …`), SOON);
  const withdraw = offerCancel(view.querySelector("[role=status]"), () => {
    asking.abort();
    end();
    say("Cancelled.");
    view.querySelector("textarea").focus();
  });
  function end() {
    clearTimeout(soon);
    withdraw();
    if (current.get(view)?.end !== end) return; // another wait has begun since
    current.delete(view);
    view.classList.remove("waiting");
    view.removeAttribute("aria-busy");
  }
  current.set(view, { end });
  return end;
}

/** After a moment, put the seconds so far and a button to `cancel` after an element. Returns what withdraws them. */
export function offerCancel(place, cancel) {
  const began = performance.now();
  const bar = element("p", { class: "wait" });
  const seconds = element("span", { "aria-hidden": "true" }); // not read out every second
  const button = element("button", { type: "button" }, "Cancel");
  button.addEventListener("click", cancel);
  bar.append(seconds, " ", button);
  const long = setTimeout(() => place.after(bar), LONG);
  const tick = setInterval(() => { seconds.textContent = `${Math.round((performance.now() - began) / 1000)} s`; }, 500);
  return () => {
    clearTimeout(long);
    clearInterval(tick);
    bar.remove();
  };
}
