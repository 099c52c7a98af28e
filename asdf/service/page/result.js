// The answer of the service, shown.
const byId = (id) => document.getElementById(id);
let shown = null;

function partEntry({ start, end, lowest }) {
  const times = `${clockWithTenths(start)} to ${clockWithTenths(end)}`;
  const button = el('button', { type: 'button' }, el('span', { class: 'verb' }, 'Play '), times);
  button.addEventListener('click', () => play(start, end));
  return el('li', {}, button, ` lowest score ${number(lowest)}`);
}

function showParts({ parts, threshold, windows }) {
  let entries = parts;
  byId('parts-title').textContent = parts.length ? 'Parts that sound spoofed' : 'No part sounds spoofed by itself';
  if (threshold === null) {
    const lowest = windows.reduce((least, window) => (window.score < least.score ? window : least));
    byId('parts-title').textContent = 'The part with the lowest score';
    entries = [{ start: lowest.start_s, end: lowest.end_s, lowest: lowest.score }];
  }
  byId('parts').replaceChildren(...entries.map(partEntry));
}

const partsOf = ({ threshold, recordings: [{ windows }] }) => (threshold === null ? [] : spoofedParts(windows, threshold));

// A likelihood ratio as a report states it, with what it rests on.
function llrRows(recording, calibration) {
  const rows = [['log10 of it', recording.log10_llr.toFixed(2)], ['In words', recording.llr_words]];
  if (recording.llr_interval) {
    const [low, high] = recording.llr_interval.map((llr) => llr.toFixed(2));
    rows.push(['Interval at 95 %', `${low} to ${high}`]);
  }
  if (recording.unbounded_llr !== undefined) rows.push(['Without bounds', recording.unbounded_llr.toFixed(2)]);
  if (calibration) rows.push(['Calibration', calibration.origin]);
  return rows;
}

// What a report of the recording has to state, whatever else it says.
function showNumbers(name, answer, recording) {
  const made = answer.made_by;
  const strength = recording.llr === undefined ? [] : llrRows(recording, answer.calibration);
  const rows = [['File', name], ['SHA-256', recording.sha256], ['Seconds', recording.seconds.toFixed(2)],
    ['Seconds scored', recording.seconds_scored.toFixed(2)], [answer.kind === 'llr' ? 'Score (LLR)' : 'Score', recording.score.toFixed(4)],
    ...strength,
    ['What the score is of', answer.scores], ['Verdict', recording.verdict || 'none'], ['Threshold', answer.decision || 'none'],
    ['Scored at', dateWords(made.date)], ['Network', answer.network], ['SHA-256 of the network', made.network_sha256 || 'unknown'],
    ['Program', `ASDF ${made.asdf}, PyTorch ${made.torch}`]];
  byId('numbers').replaceChildren(...rows.flatMap(([title, value]) => [el('dt', {}, title), el('dd', {}, value)]));
}

function showResult({ answer, file, name }) {
  const recording = answer.recordings[0];
  const parts = partsOf(answer);
  const { kind, text } = verdictWords(recording, answer.threshold, parts.length);
  byId('name').replaceChildren(el('strong', {}, name), ` (${clock(recording.seconds)})`);
  document.title = `${name}: is this voice genuine?`;
  shown = { seconds: recording.seconds, outline: answer.outline, windows: recording.windows, threshold: answer.threshold, parts, kind: answer.kind };
  byId('verdict').textContent = text;
  byId('verdict').className = kind;
  byId('explanation').textContent = scoreWords(recording, answer);
  byId('remark').textContent = recording.remark || '';
  byId('caption').textContent = `Each score is of ${number(data.window_s)} s. The score of a whole recording can hide a short part.`
    + (parts.length ? ' Parts that sound spoofed are coloured.' : '');
  showNumbers(name, answer, recording);
  showParts(shown);
  load(file);
  byId('result').hidden = false;
  redraw();
  byId('verdict').focus();
}

function hideResult() {
  recordings.forEach((entry) => { entry.isShown = false; });
  byId('result').hidden = true;
  player.pause();
}
