// Settings are searched by name, value and source; any two of several runs are compared.
function startSearch(tables) {
  if (!tables.length) return;
  const section = tables[0].closest('section');
  const box = el('input', { type: 'search', placeholder: 'name, value or source', id: 'search' });
  const status = el('span', { role: 'status', class: 'note' });
  const opened = new Map([...section.querySelectorAll('details')].map((details) => [details, details.open]));
  box.addEventListener('input', () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let matches = 0;
    for (const table of tables) {
      for (const row of table.tBodies[0].rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        matches += !row.hidden;
      }
    }
    for (const [details, before] of opened) {
      details.open = words.length ? details.querySelector('tbody tr:not([hidden])') !== null : before;
    }
    status.textContent = words.length ? `${matches} found` : '';
  });
  section.querySelector('details.run').before(el('div', { class: 'controls' }, el('label', { for: 'search' }, 'Search the settings'), box, status));
}

function startDifferences(table) {
  const runs = data.runs.map((run, index) => [String(index), run.name]);
  if (runs.length < 3) return;
  let pair = ['0', '1'];
  const show = () => {
    const columns = new Set(pair.map((index) => Number(index) + 1));
    for (const row of table.rows) {
      [...row.cells].forEach((cell, i) => { cell.hidden = i > 0 && !columns.has(i); });
      const [a, b] = pair.map((index) => valueOf(row.cells[Number(index) + 1]));
      row.hidden = row.parentElement !== table.tHead && a === b;
    }
  };
  const pick = (which, label) => choice(label, runs, pair[which], (value) => {
    pair = pair.map((old, i) => (i === which ? value : old));
    show();
  });
  table.closest('.scroll').before(el('div', { class: 'controls' }, pick(0, 'Compare'), pick(1, 'with')));
  show();
}

document.querySelectorAll('figure.plot').forEach(startFigure);
document.querySelectorAll('table[data-tools]').forEach(startTable);
document.querySelectorAll('table.differences').forEach(startDifferences);
startSearch(document.querySelectorAll('table.settings'));
