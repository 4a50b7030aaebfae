// The API, as the page calls it: JSON in, JSON out; an error has the message that the server gives.

const TOKEN = "blanklm-token";

export class ApiError extends Error {
  constructor(status, { code, message, field }) {
    super(message);
    Object.assign(this, { status, code, field });
  }
}

/** Call the server; if it needs a token, ask for one and try again. */
export async function call(path, body, signal) {
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
    const answer = await response.json().catch(lost);
    if (!response.ok) throw new ApiError(response.status, answer.error);
    return answer;
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
