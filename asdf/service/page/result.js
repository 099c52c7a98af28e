// The answer of the service, shown.
const byId = (id) => document.getElementById(id);
let shown = null;

function partEntry({ start, end, lowest }) {
  const times = `${clockWithTenths(start)} to ${clockWithTenths(end)}`;
  const button = el('button', { type: 'button' }, `Play ${times}`);
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

function showNumbers(answer, recording) {
  const rows = [['Score', recording.score.toFixed(4)], ['What it is of', answer.scores], ['Verdict', recording.verdict || 'none'],
    ['Threshold', answer.decision || 'none'], ['Seconds', recording.seconds.toFixed(2)], ['Seconds scored', recording.seconds_scored.toFixed(2)],
    ['Network', answer.network]];
  byId('numbers').replaceChildren(...rows.flatMap(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
}

function showResult(answer, file) {
  const recording = answer.recordings[0];
  const { kind, text } = verdictWords(recording, answer.threshold);
  const parts = answer.threshold === null ? [] : spoofedParts(recording.windows, answer.threshold);
  shown = { seconds: recording.seconds, outline: answer.outline, windows: recording.windows, threshold: answer.threshold, parts, kind: answer.kind };
  byId('verdict').textContent = text;
  byId('verdict').className = kind;
  byId('explanation').textContent = scoreWords(recording, answer);
  byId('remark').textContent = recording.remark || '';
  byId('caption').textContent = `Scores of ${number(data.window_s)} s each; the mean of a longer recording can hide a short part.`
    + (parts.length ? ' Parts that sound spoofed are coloured.' : '');
  showNumbers(answer, recording);
  showParts(shown);
  load(file);
  byId('result').hidden = false;
  redraw();
  byId('verdict').focus();
}

function hideResult() {
  byId('result').hidden = true;
  player.pause();
}
