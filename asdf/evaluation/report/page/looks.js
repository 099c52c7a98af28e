// How lines are told apart: by colour, by dashes and by marks, so that no eye and no printer depends on colour.
const DASHES = [null, '7 4', '2 3', '9 3 2 3'];
const MARKS = ['M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0Z', 'M-4,-4H4V4H-4Z', 'M0,-5L5,4H-5Z', 'M0,-5.5L5.5,0L0,5.5L-5.5,0Z',
  'M0,5L5,-4H-5Z'];

const look = (index) => ({ colour: `c${index % 6}`, dash: DASHES[index % 4], mark: MARKS[index % 5] });

function marker(index, x, y, words) {
  const { colour, mark } = look(index);
  return svg('path', { d: mark, transform: `translate(${x.toFixed(1)},${y.toFixed(1)})`, class: `marker ${colour}` },
    svg('title', {}, words));
}

const line = (index, d) => svg('path', { d, class: `line ${look(index).colour}`, 'stroke-dasharray': look(index).dash });

// What the user has switched off, by name, in all plots together.
const hidden = new Set();

// entries: [{name, index}], the index being that of the name's look.
function legend(title, entries) {
  const labels = entries.map(({ name, index }) => {
    const box = el('input', { type: 'checkbox', 'data-name': name });
    box.checked = !hidden.has(name);
    box.addEventListener('change', () => {
      if (box.checked) hidden.delete(name); else hidden.add(name);
      for (const other of document.querySelectorAll('.legend input')) {
        if (other.dataset.name === name) other.checked = box.checked;
      }
      redraw();
    });
    const sample = svg('svg', { viewBox: '0 0 36 14', 'aria-hidden': 'true' }, line(index, 'M0,7H36'), marker(index, 18, 7, ''));
    return el('label', {}, box, sample, name);
  });
  return el('fieldset', { class: 'legend' }, el('legend', {}, title), ...labels);
}
