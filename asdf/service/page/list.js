// The recordings of this visit, as a table, and as files to save.
const recordings = [];
const STATES = { waiting: 'waits', scoring: 'is being scored' };

function rowOf(entry) {
  const { answer, state, words } = entry;
  if (state === 'failed') return el('tr', {}, el('th', { scope: 'row' }, entry.name), el('td', { colspan: 3, class: 'wide' }, words));
  if (state !== 'done') return el('tr', {}, el('th', { scope: 'row' }, entry.name), el('td', { colspan: 3, class: 'soft' }, STATES[state]));
  const recording = answer.recordings[0];
  const { kind, short } = verdictWords(recording, answer.threshold);
  const details = el('button', { type: 'button', class: 'name', 'aria-current': entry.isShown ? 'true' : null }, entry.name);
  details.addEventListener('click', () => show(entry));
  return el('tr', {}, el('th', { scope: 'row' }, details), el('td', {}, el('span', { class: `verdict ${kind}` }, short)),
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

// A cell that no spreadsheet takes for a formula; numbers stay what they are.
function csvCell(value) {
  if (typeof value === 'number') return String(value);
  const text = value.length > 1 && '=+-@\t\r\n'.includes(value[0]) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function asCsv() {
  const columns = ['path', data.kind, 'verdict', 'seconds', 'seconds_scored', 'remark', 'error', 'sha256', 'date', 'asdf', 'network', 'network_sha256', 'parts'];
  const hasHome = recordings.some(({ answer }) => answer && answer.recordings[0].unlike !== undefined);
  if (hasHome) columns.push('unlike', 'distance');
  const { members = [] } = recordings.map(({ answer }) => answer && answer.panel).find(Boolean) || {};
  if (members.length) columns.push('members_bona_fide', 'members_spoof', ...members.map(({ name }) => `member_${name}`));
  const agreementCells = (recording) => {
    if (!members.length) return [];
    const { agreement } = recording || {};
    return agreement ? [agreement.bona_fide, agreement.spoof, ...agreement.members.map(({ llr }) => llr)] : Array(members.length + 2).fill('');
  };
  const rows = recordings.filter(({ state }) => state in { done: 1, failed: 1 }).map(({ name, answer, words }) => {
    if (!answer) return [name, '', '', '', '', '', words, '', '', '', '', '', '', ...(hasHome ? ['', ''] : []), ...agreementCells()];
    const { score, verdict, seconds, seconds_scored: scored, remark, sha256, parts = [], unlike = '', distance = '' } = answer.recordings[0];
    const { date, asdf, network_sha256: network } = answer.made_by;
    return [name, score, verdict || '', seconds, scored, remark || '', '', sha256 || '', date, asdf, answer.network, network || '', parts.map(({ start_s: start, end_s: end, score: lowest }) => `${start} ${end} ${lowest}`).join('; '), ...(hasHome ? [String(unlike), distance] : []), ...agreementCells(answer.recordings[0])];
  });
  return [columns, ...rows].map((row) => `${row.map(csvCell).join(',')}\n`).join('');
}

// The answers of the service as they came, without the waveforms' outlines.
function asJson() {
  const answers = recordings.filter(({ state }) => state in { done: 1, failed: 1 })
    .map(({ name, answer, words }) => (answer ? { ...answer, outline: undefined } : { recordings: [{ path: name, error: words }] }));
  return `${JSON.stringify(answers, null, 2)}\n`;
}

function saveAs(name, kind, text) {
  const link = el('a', { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
