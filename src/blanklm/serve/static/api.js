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
    const response = await fetch(path, body === undefined ? options : { ...options, body: JSON.stringify(body) });
    if (response.status === 401) {
      await askForToken();
      continue;
    }
    const answer = await response.json();
    if (!response.ok) throw new ApiError(response.status, answer.error);
    return answer;
  }
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
