// The API, as the page calls it: JSON in, JSON or events out; an error has the message that the server gives.

const TOKEN = "blanklm-token";

export class ApiError extends Error {
  constructor(status, { code, message, field }) {
    super(message);
    Object.assign(this, { status, code, field });
  }
}

/** Call the server, and return its answer. */
export async function call(path, body, signal) {
  const response = await ask(path, body, signal);
  return response.json().catch(lost);
}

/** Call the server, and give each event of its answer to `take(name, data)` as it comes; an error is thrown. */
export async function follow(path, body, signal, take) {
  const response = await ask(path, { ...body, stream: true }, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read().catch(lost);
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const [name, data] = block.split("\n").map((line) => line.slice(line.indexOf(": ") + 2));
      if (name === "error") throw new ApiError(response.status, JSON.parse(data).error);
      take(name, JSON.parse(data));
    }
  }
}

/** Send a request; if the server needs a token, ask for one and try again. */
async function ask(path, body, signal) {
  for (;;) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    if (body !== undefined) headers["Content-Type"] = "application/json";
    const options = { method: body === undefined ? "GET" : "POST", headers, signal };
    const response = await fetch(path, body === undefined ? options : { ...options, body: JSON.stringify(body) }).catch(lost);
    if (response.status === 401) {
      await askForToken();
      continue;
    }
    if (!response.ok) throw new ApiError(response.status, (await response.json().catch(lost)).error);
    return response;
  }
}

function lost(error) {
  if (error.name === "AbortError") throw error;
  const message = "The server does not answer. Is it still running (blanklm serve)? Your text stays here: try again when it is.";
  throw new ApiError(0, { code: "lost", message });
}

function askForToken() {
  const dialog = document.getElementById("token");
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      sessionStorage.setItem(TOKEN, document.getElementById("token-value").value);
      resolve();
    }, { once: true });
    dialog.showModal();
  });
}
