// What every view does with the document.

export const $ = (id) => document.getElementById(id);

/** An element whose children are elements or plain text; texts are never read as HTML. */
export function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

export function percent(p) {
  if (p < 0.001) return "< 0.1 %";
  return `${(100 * p).toFixed(p < 0.1 ? 1 : 0)} %`;
}

/** Copy the text of an element, or select it where the browser does not let us; returns what to tell. */
export async function copyText(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return "Copied.";
  } catch {
    getSelection().selectAllChildren(source);
    return "Selected: copy it with Ctrl + C.";
  }
}

/** The state in the address, of the view that it names. */
export function stateIn(hash) {
  return new URLSearchParams(hash.slice(1));
}
