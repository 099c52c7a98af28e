// The page's own work: files that are chosen, dropped or recorded are sent one after the other, and their answers shown.
const token = byId('token');
let stopMicrophone = null;
let current = null;
// Of the files that came since nothing was to be done: how many, and how many are done.
let batch = { count: 0, done: 0 };

function say(status, error = '') {
  byId('status').textContent = status;
  byId('error').textContent = error;
}

function setBusy(busy) {
  byId('cancel').hidden = !busy;
  byId('record').disabled = busy;
}

function problemOf(file) {
  if (file.size <= data.max_mb * 1e6) return '';
  return `The file has ${(file.size / 1e6).toFixed(1)} MB, but this service accepts up to ${data.max_mb} MB. Ask who runs it for a higher limit (--max-mb), or score the file with asdf-antispoofing score.`;
}

// Scores the recordings among files that were chosen or dropped.
async function scoreFiles(files) {
  const entries = await prepare(files);
  if (files.length && !entries.length) say('The turns apply to the next recording that you choose.');
  score(entries);
}

function score(entries) {
  if (!entries.length) return;
  hideResult();
  say('');
  if (!current) batch = { count: 0, done: 0 };
  batch.count += entries.length;
  for (const entry of entries) recordings.push({ ...entry, state: 'waiting', words: problemOf(entry.file) });
  remember(token.value);
  scoreNext();
}

function scoreNext() {
  if (current) return;
  current = recordings.find(({ state }) => state === 'waiting') || null;
  setBusy(Boolean(current));
  if (!current) {
    showList();
    return;
  }
  if (current.words) {
    conclude('failed', { words: current.words });
    return;
  }
  current.state = 'scoring';
  showList();
  const number = batch.count > 1 ? `${batch.done + 1} of ${batch.count}: ` : '';
  say(`${number}Sending`);
  send(current, token.value, {
    progress: (words) => say(number + words),
    done: (answer) => conclude('done', { answer }),
    failed: (status, words) => {
      if (status === 401) refuseAll(words);
      conclude('failed', { words });
      if (status === 401) token.focus();
    },
  });
}

// Notes what became of the current recording, and goes on with the next.
function conclude(state, result) {
  const entry = Object.assign(current, result, { state });
  current = null;
  batch.done += 1;
  const isAlone = batch.count === 1;
  say('', isAlone && state === 'failed' ? result.words : '');
  if (isAlone && state === 'done') show(entry);
  scoreNext();
}

// Without its token the service takes none of those that wait.
function refuseAll(words) {
  recordings.filter(({ state }) => state === 'waiting').forEach((entry) => Object.assign(entry, { state: 'failed', words }));
  batch.count = Math.max(1, batch.done + 1);
}

// The token is remembered until the window is closed, where the browser lets a page do so.
function remember(value) {
  try {
    if (value !== undefined) sessionStorage.setItem('asdf-service-token', value);
    return sessionStorage.getItem('asdf-service-token') || '';
  } catch {
    return '';
  }
}

function showRecording(isRecording) {
  byId('recording').hidden = !isRecording;
  byId('file').disabled = isRecording;
  byId('record').textContent = isRecording ? 'Stop and score' : 'Record with the microphone';
}

async function endRecording() {
  const stop = stopMicrophone;
  stopMicrophone = null;
  showRecording(false);
  const file = await stop();
  // Several may be in one table.
  score([{ file, name: `microphone ${new Date().toISOString().slice(0, 19).replaceAll(':', '.')}.wav` }]);
}

async function beginRecording() {
  hideResult();
  say('');
  byId('record').disabled = true;
  try {
    stopMicrophone = await startMicrophone((seconds, level) => {
      byId('clock').textContent = clock(seconds);
      byId('level').value = level;
      if (seconds >= data.max_seconds - 1 && stopMicrophone) endRecording();
    });
    showRecording(true);
    say('Recording. Speak for a few seconds.');
  } catch (error) {
    say('', microphoneProblem(error));
  }
  byId('record').disabled = false;
}

const named = (files) => [...files].map((file) => ({ file, name: file.name }));

function startDropping(area) {
  const mark = (over) => area.classList.toggle('over', over);
  // A file that misses the field must not replace the page.
  for (const kind of ['dragover', 'drop']) window.addEventListener(kind, (event) => event.preventDefault());
  area.addEventListener('dragover', () => mark(true));
  area.addEventListener('dragleave', () => mark(false));
  area.addEventListener('drop', (event) => {
    mark(false);
    if (!byId('file').disabled) scoreFiles(named(event.dataTransfer.files));
  });
}

byId('token-field').hidden = !data.token;
// The token goes with the next recording.
byId('token-field').addEventListener('submit', (event) => event.preventDefault());
token.value = remember();
byId('file').addEventListener('change', ({ target }) => {
  scoreFiles(named(target.files));
  // The same file may be chosen again.
  target.value = '';
});
byId('record').addEventListener('click', () => (stopMicrophone ? endRecording() : beginRecording()));
byId('cancel').addEventListener('click', () => {
  cancelUpload();
  current = null;
  recordings.filter(({ state }) => state in STATES).forEach((entry) => Object.assign(entry, { state: 'failed', words: 'Cancelled.' }));
  scoreNext();
  say('Cancelled.');
});
byId('save-csv').addEventListener('click', () => save(new Blob([asCsv()], { type: 'text/csv' }), 'scores.csv'));
byId('save-json').addEventListener('click', () => save(new Blob([asJson()], { type: 'application/json' }), 'scores.json'));
byId('print').addEventListener('click', () => window.print());
startDropping(byId('drop'));
