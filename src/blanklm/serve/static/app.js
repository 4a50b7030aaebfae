// The page: which models there are, and the views for the tasks that they can do.

import { call } from "./api.js";
import * as fill from "./fill.js";

const VIEWS = [fill]; // each has the `task` that it is for, and `start(models)`

try {
  const { models } = await call("v1/models");
  for (const view of VIEWS) {
    const able = models.filter((model) => model.tasks.includes(view.task));
    if (able.length) view.start(able);
  }
} catch (error) {
  document.getElementById("status").textContent = `The server does not answer: ${error.message}`;
}
