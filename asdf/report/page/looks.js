// Lines differ by colour, by dashes and by marks, so that no eye and no printer depends on colour.
const DASHES = [null, '7 4', '2 3', '9 3 2 3'];
const MARKS = ['M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0Z', 'M-4,-4H4V4H-4Z', 'M0,-5L5,4H-5Z', 'M0,-5.5L5.5,0L0,5.5L-5.5,0Z',
  'M0,5L5,-4H-5Z'];

const look = (index) => ({ colour: `c${index % 9}`, dash: DASHES[index % 4], mark: MARKS[index % 5] });

function marker(index, x, y, words) {
  const { colour, mark } = look(index);
  return svg('path', { d: mark, transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, class: `marker ${colour}` },
    svg('title', {}, words));
}

const line = (index, d) => svg('path', { d, class: `line ${look(index).colour}`, 'stroke-dasharray': look(index).dash });

// The names that the user has switched off, in all plots together; only the best of many systems are shown at first.
const hidden = new Set();
data.systems.filter((name) => !data.ticked.includes(name)).forEach((name) => hidden.add(name));
data.runs.filter(({ name }) => !data.systems.includes(name)).slice(8).forEach(({ name }) => hidden.add(name));

const labelOf = (name) => data.labels[name] || name;

function tick(chosen) {
  for (const box of document.querySelectorAll('.legend input')) {
    box.checked = chosen(box.dataset.name, box.checked);
    if (box.checked) hidden.delete(box.dataset.name); else hidden.add(box.dataset.name);
  }
  redraw();
}

// entries: [{name, index}], where the index selects the look.
function legend(title, entries) {
  const labels = entries.map(({ name, index }) => {
    const box = el('input', { type: 'checkbox', 'data-name': name });
    box.checked = !hidden.has(name);
    box.addEventListener('change', () => tick((other, before) => (other === name ? box.checked : before)));
    const sample = svg('svg', { viewBox: '0 0 36 14', 'aria-hidden': 'true' }, line(index, 'M0,7H36'), marker(index, 18, 7, ''));
    return el('label', { title: labelOf(name) === name ? null : name }, box, sample, labelOf(name));
  });
  const all = (words, chosen) => {
    const button = el('button', { type: 'button' }, words);
    button.addEventListener('click', () => tick(chosen));
    return button;
  };
  const many = entries.length > data.ticked.length && entries.every(({ name }) => data.systems.includes(name));
  const tools = many ? [all(`Best ${data.ticked.length}`, (name) => data.ticked.includes(name)),
    all('All', () => true), all('None', () => false)] : [];
  const buttons = tools.length ? el('span', { class: 'choices' }, ...tools) : null;
  return el('fieldset', { class: `legend${many ? ' many' : ''}` }, el('legend', {}, title), buttons, ...labels);
}
