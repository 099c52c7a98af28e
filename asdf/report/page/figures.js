// Figures stand on the page as they are: the script shows and hides their parts, and draws nothing.

// The names that are switched off, in all plots together; only the best of many systems are shown at first.
const hidden = new Set(data.hidden);
const labelOf = (name) => data.labels[name] || name;
const NAMED = 'figure.plot svg[data-name], figure.plot svg [data-name]';

function showTicked() {
  document.querySelectorAll(NAMED).forEach((part) => part.classList.toggle('unticked', hidden.has(part.dataset.name)));
}

function tick(chosen) {
  for (const box of document.querySelectorAll('.legend input')) {
    box.checked = chosen(box.dataset.name, box.checked);
    if (box.checked) hidden.delete(box.dataset.name); else hidden.add(box.dataset.name);
  }
  showTicked();
}

// The names of a legend become boxes that are ticked.
function startLegend(list) {
  const names = [];
  const labels = [...list.children].map((entry) => {
    const name = entry.dataset.entry, box = el('input', { type: 'checkbox', 'data-name': name });
    names.push(name);
    box.checked = !hidden.has(name);
    box.addEventListener('change', () => tick((other, before) => (other === name ? box.checked : before)));
    return el('label', { title: entry.title || null }, box, ...entry.childNodes);
  });
  const all = (words, chosen) => {
    const button = el('button', { type: 'button' }, words);
    button.addEventListener('click', () => tick(chosen));
    return button;
  };
  const many = names.length > data.ticked.length && names.every((name) => data.systems.includes(name));
  const tools = many ? [el('span', { class: 'choices' }, all(`Best ${data.ticked.length}`, (name) => data.ticked.includes(name)),
    all('All', () => true), all('None', () => false))] : [];
  list.replaceWith(el('fieldset', { class: list.className + (many ? ' many' : ''), 'data-choice': list.dataset.choice },
    el('legend', {}, list.dataset.title), ...tools, ...labels));
}

function startChoices(figure) {
  const options = JSON.parse(figure.dataset.choices), choosing = choice(figure.dataset.choose, options, options[0][0], (chosen) => {
    figure.querySelectorAll('[data-choice]').forEach((part) => part.classList.toggle('unchosen', part.dataset.choice !== chosen));
  });
  figure.querySelector('.canvas').before(el('div', { class: 'controls' }, choosing));
}

const inWords = (value) => String(Number(value.toPrecision(4))).replace('-', '−');

// What a point of a line says, by the kind of its figure.
const WORDS = {
  det(figure, key) {
    const one = data.sets[figure.dataset.set][parseInt(key, 10)], attack = key.slice(key.indexOf(':') + 1);
    const rates = one.curves[attack];
    return (i) => [`miss ${inWords(rates[2 * i + 1])} %, false alarm ${inWords(rates[2 * i])} %`,
      `threshold ${inWords(one.thresholds[attack][i])}`];
  },
  training(figure, key) {
    const [run, kind, ...rest] = key.split(':'), set = rest.join(':'), known = data.runs[run][kind];
    const points = set ? known[set] : known, unit = kind === 'eer' ? ' %' : kind === 'losses' ? ` on ${set}` : '';
    return (i) => [`epoch ${inWords(points[2 * i])}: ${inWords(points[2 * i + 1])}${unit}`];
  },
};

// The nearest point of the lines that are shown to the pointer, in words, with hairlines to both axes.
function startReadOut(figure, root) {
  const frame = root.querySelector('.frame');
  const [left, top, wide, high] = ['x', 'y', 'width', 'height'].map((name) => Number(frame.getAttribute(name)));
  const held = (x) => Math.min(Math.max(x, left), left + wide);
  const hair = svg('path', { class: 'hair' }), spot = svg('circle', { r: 3.5, class: 'spot' }), text = svg('text', { class: 'read' });
  const shown = svg('g', { class: 'readout', 'aria-hidden': 'true' }, hair, spot, text);
  shown.style.display = 'none';
  root.append(shown);
  const lines = [...root.querySelectorAll('path.line[data-series]')].map((line) => ({
    line,
    words: WORDS[figure.dataset.plot](figure, line.dataset.series),
    points: [...line.getAttribute('d').matchAll(/([-\d.]+),([-\d.]+)/g)].map(([, x, y]) => ({ x: held(Number(x)), y: Number(y) })),
  }));
  root.addEventListener('pointermove', (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(root.getScreenCTM().inverse());
    let near = null, least = 3600;
    for (const { line, words, points } of lines) {
      if (line.matches('.unticked, .unchosen')) continue;
      points.forEach(({ x, y }, i) => {
        const away = (x - at.x) ** 2 + (y - at.y) ** 2;
        if (away >= least || y < top - 1 || y > top + high + 1) return;
        least = away;
        near = { x, y, name: line.dataset.name, words, i };
      });
    }
    shown.style.display = near ? '' : 'none';
    if (!near) return;
    hair.setAttribute('d', `M${near.x},${top}V${top + high}M${left},${near.y}H${left + wide}`);
    spot.setAttribute('cx', near.x);
    spot.setAttribute('cy', near.y);
    const right = near.x < left + wide / 2, up = near.y > top + 40;
    const read = [labelOf(near.name), ...near.words(near.i)];
    text.setAttribute('text-anchor', right ? 'start' : 'end');
    text.replaceChildren(...read.map((one, i) => svg('tspan', {
      x: near.x + (right ? 8 : -8), y: near.y + (up ? -6 - 14 * (read.length - 1 - i) : 16 + 14 * i) }, one)));
  });
  root.addEventListener('pointerleave', () => { shown.style.display = 'none'; });
}

function startFigure(figure) {
  if (figure.dataset.choices) startChoices(figure);
  figure.querySelectorAll('.legend[data-title]').forEach(startLegend);
  if (WORDS[figure.dataset.plot]) figure.querySelectorAll('svg[role=img]').forEach((root) => startReadOut(figure, root));
  startDownload(figure);
}
