// The page: which models there are, and the views for the tasks that they can do.

import { call } from "./api.js";
import * as choose from "./choose.js";
import { $, element, stateIn } from "./dom.js";
import * as fill from "./fill.js";
import * as repair from "./repair.js";
import * as restore from "./restore.js";
import * as transfer from "./transfer.js";

// Each has the `task` that it is for, a `title`, the text `box`, `start(models)`, and `open(first)`, which shows what the
// address says.
const VIEWS = [fill, choose, repair, restore, transfer];

try {
  const { models } = await call("v1/models");
  const able = (view) => models.filter((model) => model.tasks.includes(view.task));
  const views = VIEWS.filter((view) => able(view).length);
  for (const view of views) view.start(able(view));
  const links = views.map((view) => element("a", { href: `#view=${view.task}` }, view.title));
  $("views").replaceChildren(...links);
  $("views").hidden = views.length < 2;

  const opened = new Set();
  const show = () => {
    const at = Math.max(0, views.findIndex((view) => view.task === stateIn(location.hash).get("view")));
    for (const view of VIEWS) $(`view-${view.task}`).hidden = view !== views[at];
    views.forEach((view, i) => {
      if (i === at) links[i].setAttribute("aria-current", "page");
      else links[i].removeAttribute("aria-current");
    });
    document.querySelector(".skip").href = `#${views[at]?.box}`;
    views[at]?.open(!opened.has(views[at]));
    opened.add(views[at]);
  };
  addEventListener("popstate", () => {
    if (!location.hash || location.hash.includes("=")) show(); // else it is a place in the page
  });
  show();
} catch (error) {
  $("status").textContent = error.message;
}
