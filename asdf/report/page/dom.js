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

const byId = (id) => document.getElementById(id);

// A spreadsheet takes a text that begins with one of these for a formula, unless it is a number or a lone sign.
function csvCell(value) {
  const text = String(value), safe = /^[=+@\t\r\n-]./s.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function save(blob, name) {
  const link = el('a', { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function choice(label, options, chosen, changed) {
  const select = el('select', {}, ...options.map(([value, text]) => el('option', { value }, text)));
  select.value = chosen;
  select.addEventListener('change', () => changed(select.value));
  return el('label', {}, `${label} `, select);
}
