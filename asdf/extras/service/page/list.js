// The recordings of this visit, as a table, and as files to save.
const recordings = [];
const STATES = { waiting: 'waiting', scoring: 'being scored' };

function rowOf(entry) {
  const { answer, state, words } = entry;
  if (state === 'failed') return el('tr', {}, el('th', { scope: 'row' }, entry.name), el('td', { colspan: 3, class: 'wide' }, words));
  if (state !== 'done') return el('tr', {}, el('th', { scope: 'row' }, entry.name), el('td', { colspan: 3, class: 'soft' }, STATES[state]));
  const recording = answer.recordings[0];
  const { kind, short } = verdictWords(recording, answer.threshold);
  const details = el('button', { type: 'button', class: 'name', 'aria-current': entry.isShown ? 'true' : null }, entry.name);
  details.addEventListener('click', () => show(entry));
  const verdict = el('td', {}, el('span', { class: `verdict ${kind}` }, short),
    ...(answer.speakers ? [el('span', { class: 'interval' }, speakersWords(answer.speakers))] : []));
  return el('tr', {}, el('th', { scope: 'row' }, details), verdict,
    el('td', { class: 'n' }, recording.score.toFixed(4).replace('-', '−')), el('td', { class: 'n' }, clock(recording.seconds)));
}

function countWords() {
  const count = (state) => recordings.filter((entry) => entry.state === state).length;
  const failed = count('failed');
  const waiting = count('waiting') + count('scoring');
  return [`${count('done')} of ${recordings.length} scored`, waiting ? `${waiting} to go` : '', failed ? `${failed} could not be scored` : '']
    .filter(Boolean).join(', ');
}

// One recording by itself has its result below, and needs no table.
function showList() {
  byId('list').hidden = recordings.length < 2;
  byId('save').hidden = !recordings.some(({ state }) => state === 'done');
  byId('score-name').textContent = data.kind === 'llr' ? 'LLR' : 'Score';
  byId('count').textContent = countWords();
  byId('rows').replaceChildren(...recordings.map(rowOf));
}

// Shows the details of a recording that is scored.
function show(entry) {
  recordings.forEach((other) => { other.isShown = other === entry; });
  showList();
  showResult(entry);
}

const FIRST_COLUMNS = ['path', data.kind, 'verdict', 'seconds', 'seconds_scored', 'remark', 'error', 'sha256', 'date', 'asdf', 'network', 'network_sha256', 'parts'];

// The cells of a recording, or of a speaker in it, by their columns.
function csvCells(answer, entry) {
  const cells = { [data.kind]: entry.score ?? '', network: answer.network, asdf: answer.made_by.asdf, date: answer.made_by.date, network_sha256: answer.made_by.network_sha256 || '' };
  for (const name of ['verdict', 'seconds', 'seconds_scored', 'remark', 'error', 'sha256', ...data.columns.flat()]) cells[name] = entry[name] ?? '';
  cells.parts = (entry.parts || []).map(({ start_s: start, end_s: end, score: lowest }) => `${start} ${end} ${lowest}`).join('; ');
  return cells;
}

// The columns that every table has, and those of what was found in one of the answers.
function csvColumns(answers) {
  const entries = answers.flatMap(({ recordings: known, speakers = [] }) => [...known, ...speakers]);
  return [...FIRST_COLUMNS, ...data.columns.filter(([first]) => entries.some((entry) => first in entry)).flat()];
}

// A row per recording, and one per speaker of those that are conversations.
function asCsv() {
  const concluded = recordings.filter(({ state }) => state in { done: 1, failed: 1 });
  const columns = csvColumns(concluded.map(({ answer }) => answer).filter(Boolean));
  const rows = concluded.flatMap(({ name, answer, words }) => {
    if (!answer) return [{ path: name, error: words }];
    return [answer.recordings[0], ...(answer.speakers || [])].map((entry) => ({ path: name, ...csvCells(answer, entry) }));
  });
  const lines = rows.map((row) => columns.map((column) => row[column] ?? ''));
  return [columns, ...lines].map((line) => `${line.map(csvCell).join(',')}\n`).join('');
}

// The answers of the service, without what only this page needs.
function asJson() {
  const answers = recordings.filter(({ state }) => state in { done: 1, failed: 1 })
    .map(({ name, answer, words }) => answer || { recordings: [{ path: name, error: words }] });
  return `${JSON.stringify(answers, (key, value) => (['outline', 'shown'].includes(key) ? undefined : value), 2)}\n`;
}
