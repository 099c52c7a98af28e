// Elements, and choices between values.
const data = JSON.parse(document.getElementById('data').textContent);

function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const el = (name, attributes = {}, ...children) => made(document.createElement(name), attributes, children);

const svg = (name, attributes = {}, ...children) =>
  made(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children);

function choice(label, options, chosen, changed) {
  const select = el('select', {}, ...options.map(([value, text]) => el('option', { value }, text)));
  select.value = chosen;
  select.addEventListener('change', () => changed(select.value));
  return el('label', {}, `${label} `, select);
}
