// Tables are sorted by the buttons in their headers, and copied with all digits.
function valueOf(cell) {
  if (cell.dataset.value) return cell.dataset.value;
  const copy = cell.cloneNode(true);
  copy.querySelectorAll('.mark').forEach((mark) => mark.remove());
  return copy.textContent.trim().replace(/\s+/g, ' ');
}

function order(a, b) {
  const [x, y] = [Number(a), Number(b)];
  if (a === '–' || b === '–') return a === b ? 0 : 2;
  return a !== '' && b !== '' && !Number.isNaN(x) && !Number.isNaN(y) ? x - y : a.localeCompare(b, 'en', { numeric: true });
}

function sortBy(table, column, ascending) {
  const rows = [...table.tBodies[0].rows];
  const rank = (row) => (row.cells[0].classList.contains('pooled') ? 0 : valueOf(row.cells[column]) === '–' ? 2 : 1);
  rows.sort((a, b) => rank(a) - rank(b)
    || (ascending ? 1 : -1) * order(valueOf(a.cells[column]), valueOf(b.cells[column])));
  table.tBodies[0].append(...rows);
  [...table.tHead.rows[0].cells].forEach((cell, i) => {
    if (i === column) cell.setAttribute('aria-sort', ascending ? 'ascending' : 'descending');
    else cell.removeAttribute('aria-sort');
  });
}

const rowsOf = (table) => [...table.rows].map((row) => [...row.cells].filter((cell) => !cell.hidden));

const asCsv = (table) => rowsOf(table).map((row) => row.map((cell) => csvCell(valueOf(cell))).join(',')).join('\n') + '\n';

const TEX = { '\\': '\\textbackslash{}', '~': '\\textasciitilde{}', '^': '\\textasciicircum{}', '–': '--', '≥': '$\\geq$', '−': '$-$', '±': '$\\pm$', '…': '\\ldots{}' };
const texEscaped = (text) => text.replace(/[\\{}$&#%_~^–≥−±…]/g, (sign) => TEX[sign] || `\\${sign}`);

function texCell(cell) {
  const copy = cell.cloneNode(true);
  copy.querySelectorAll('.mark').forEach((mark) => mark.remove());
  const interval = copy.querySelector('.interval');
  interval?.remove();
  const plain = (element) => texEscaped(element.textContent.trim().replace(/\s+/g, ' '));
  const text = cell.classList.contains('best') ? `\\textbf{${plain(copy)}}` : plain(copy);
  return interval ? `${text} (${plain(interval)})` : text;
}

function asLatex(table) {
  const [head, ...body] = rowsOf(table).map((row) => `${row.map(texCell).join(' & ')} \\\\`);
  const columns = [...(table.tBodies[0].rows[0] || table.rows[0]).cells].filter((cell) => !cell.hidden)
    .map((cell) => (cell.classList.contains('n') ? 'r' : 'l')).join('');
  return ['% \\usepackage{booktabs}', `\\begin{tabular}{${columns}}`, '\\toprule', head, '\\midrule', ...body, '\\bottomrule',
    '\\end{tabular}', ''].join('\n');
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el('textarea', { 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

function startTable(table) {
  [...table.tHead.rows[0].cells].forEach((cell, column) => {
    const button = el('button', { type: 'button' }, ...cell.childNodes);
    button.addEventListener('click', () => sortBy(table, column, cell.getAttribute('aria-sort') !== 'ascending'));
    cell.replaceChildren(button);
  });
  const status = el('span', { role: 'status' });
  const tool = (name, write) => {
    const button = el('button', { type: 'button' }, `Copy as ${name}`);
    button.addEventListener('click', async () => {
      status.textContent = (await copied(write(table))) ? `Copied as ${name}.` : 'This browser does not let a page copy.';
    });
    return button;
  };
  table.closest('.scroll').after(el('div', { class: 'tools' }, tool('CSV', asCsv), tool('LaTeX', asLatex), status));
}
