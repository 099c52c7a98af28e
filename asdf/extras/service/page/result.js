// The answer of the service, shown.
const QUESTION = byId('verdict').textContent;

function partEntry({ start_s: start, end_s: end, score }) {
  const times = `${clockWithTenths(start)} to ${clockWithTenths(end)}`;
  const button = el('button', { type: 'button' }, el('span', { class: 'verb' }, 'Play '), times);
  button.addEventListener('click', () => playPart(start, end));
  return el('li', {}, button, ` lowest score ${number(score)}`);
}

function showParts({ parts, searched, windows, verdict }) {
  let entries = worstFirst(parts);
  byId('parts-title').textContent = parts.length ? `Parts that ${spoofedWords(verdict)}` : 'No part sounds spoofed by itself';
  // Without a threshold, and of short recordings, the lowest window is all that can be named.
  if (!searched) {
    byId('parts-title').textContent = 'The part with the lowest score';
    entries = [windows.reduce((least, window) => (window.score < least.score ? window : least))];
  }
  byId('parts').replaceChildren(...entries.map(partEntry));
}

// What is known of the score, with what it rests on.
function scoreRows(recording, { calibration }) {
  const { facts, sentences } = shownOf(recording);
  const rows = Object.entries(facts);
  if (sentences.length) rows.push(['In words', sentences.join(' ')]);
  if (recording.unbounded_llr !== undefined) rows.push(['Without bounds', recording.unbounded_llr.toFixed(2)]);
  if (calibration) rows.push(['Calibration', calibration.origin]);
  return rows;
}

// What a report of the recording has to state, whatever else it says.
function showNumbers(name, answer, recording) {
  const made = answer.made_by;
  const rows = [['File', name], ['SHA-256', recording.sha256 || 'unknown'], ['Seconds', recording.seconds.toFixed(2)],
    ['Seconds scored', recording.seconds_scored.toFixed(2)], [answer.kind === 'llr' ? 'Score (LLR)' : 'Score', recording.score.toFixed(4)],
    ...scoreRows(recording, answer),
    ['What the score is of', answer.scores], ['Verdict', recording.verdict || 'none'], ['Threshold', answer.decision || 'none'],
    ['Scored at', dateWords(made.date)], ['Network', answer.network], ['SHA-256 of the network', made.network_sha256 || 'unknown'],
    ...(made.command ? [['The same again', made.command]] : []),
    ['Program', `ASDF ${made.asdf}, PyTorch ${made.torch}`]];
  byId('numbers').replaceChildren(...rows.flatMap(([title, value]) => [el('dt', {}, title), el('dd', {}, value)]));
}

function speakerRow(entry, threshold) {
  const { speaker, score, seconds, error, remark, parts = [] } = entry;
  const name = el('th', { scope: 'row' }, speaker);
  if (error) return el('tr', {}, name, el('td', { colspan: 3, class: 'wide soft' }, `Not scored: ${error}.`));
  const { kind, short } = verdictWords(entry, threshold);
  const more = [parts.length ? parts.map(timesWords).join(', ') : '', remark || ''];
  const verdict = el('td', { class: 'wide' }, el('span', { class: `verdict ${kind}` }, short),
    ...more.filter(Boolean).map((words) => el('span', { class: 'interval' }, words)));
  return el('tr', {}, name, verdict, el('td', { class: 'n' }, score.toFixed(4).replace('-', '−')), el('td', { class: 'n' }, clockWithTenths(seconds)));
}

// Of each speaker what he or she says alone is scored; of a recording without turns nothing is known of speakers.
function showSpeakers({ speakers, threshold, kind }, note) {
  byId('speakers').hidden = !speakers && !note;
  byId('speakers-note').textContent = note || 'Each is judged by what he or she says while nobody else speaks; the verdict above is of the whole recording.';
  byId('speaker-score').textContent = kind === 'llr' ? 'LLR' : 'Score';
  document.querySelector('#speakers .scroll').hidden = !speakers;
  byId('speaker-rows').replaceChildren(...(speakers || []).map((entry) => speakerRow(entry, threshold)));
}

const spoofedWords = (verdict) => (verdict === 'undecided' ? 'have lower scores' : 'sound spoofed');

function captionWords({ parts, searched, verdict }) {
  const words = [`Each score is of ${number(data.window_s)} s.`];
  if (!searched) words.push('The score of a whole recording can hide a short part.');
  else words.push(chanceWords(searched));
  if (parts.length) words.push(`Parts that ${spoofedWords(verdict)} are coloured.`);
  return words.join(' ');
}

function showResult({ answer, file, name, note }) {
  const recording = answer.recordings[0];
  // Of what is not judged, no part is.
  const { parts = [] } = recording;
  const searched = recording.verdict ? recording.searched : null;
  const { kind, text } = verdictWords(recording, answer.threshold);
  byId('name').replaceChildren(el('strong', {}, name), ` (${clock(recording.seconds)})`);
  document.title = `${name}: is this voice genuine?`;
  shown = { seconds: recording.seconds, outline: answer.outline, windows: recording.windows, threshold: searched ? searched.threshold : answer.threshold, parts, searched, kind: answer.kind, verdict: recording.verdict };
  setVerdict(text, `verdict ${kind}`);
  const facts = [[answer.kind === 'llr' ? 'LLR' : 'Score', number(recording.score)], ['Threshold', answer.threshold === null ? 'none' : number(answer.threshold)],
    ['Verdict', recording.verdict || 'none']];
  byId('facts').replaceChildren(...facts.map(([title, value]) => el('div', {}, el('dt', {}, title), el('dd', {}, value))));
  byId('explanation').textContent = scoreWords(recording, answer);
  byId('remark').textContent = recording.remark || '';
  showSpeakers(answer, note);
  byId('caption').textContent = captionWords(shown);
  showNumbers(name, answer, recording);
  showParts(shown);
  load(file);
  setResult(true);
  see(0, recording.seconds);
  byId('verdict').focus();
}

function setVerdict(text, css) {
  byId('verdict').textContent = text;
  byId('verdict').className = css;
}

// The verdict is the first heading of the page, and the question is there before.
function setResult(isShown) {
  for (const id of ['topic', 'conclusion', 'result']) byId(id).hidden = !isShown;
  byId('intro').hidden = isShown;
  if (!isShown) setVerdict(QUESTION, '');
}

function hideResult() {
  recordings.forEach((entry) => { entry.isShown = false; });
  setResult(false);
  player.pause();
}
