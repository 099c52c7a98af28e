// Elements, and drawings that are redrawn when the width of their canvas changes.
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

const drawings = [];
const redraw = () => drawings.forEach((draw) => draw());

// Puts drawings next to each other, none narrower than `minWidth`; returns how wide each is.
function inColumns(canvas, width, minWidth, count) {
  const gap = 20, columns = Math.max(1, Math.min(count, Math.floor((width + gap) / (minWidth + gap))));
  canvas.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  return Math.floor((width - gap * (columns - 1)) / columns);
}

function drawnIn(canvas, draw) {
  let width = 0;
  const again = () => canvas.replaceChildren(...draw(Math.max(260, Math.floor(width || canvas.clientWidth || 640))));
  drawings.push(again);
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - width) < 1 || !entry.contentRect.width) return;
    width = entry.contentRect.width;
    again();
  }).observe(canvas);
  again();
}
