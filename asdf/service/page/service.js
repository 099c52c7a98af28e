// The page's own work: a file that is chosen, dropped or recorded is sent, and its answer shown.
const token = byId('token');
let stopMicrophone = null;

function say(status, error = '') {
  byId('status').textContent = status;
  byId('error').textContent = error;
}

function setBusy(busy) {
  byId('cancel').hidden = !busy;
  byId('file').disabled = busy;
  byId('record').disabled = busy;
}

function score(file, name) {
  hideResult();
  if (file.size > data.max_mb * 1e6) {
    say('', `The file has ${(file.size / 1e6).toFixed(1)} MB, and this service takes up to ${data.max_mb} MB. Cut it, or compress it.`);
    return;
  }
  setBusy(true);
  say('Sending');
  remember(token.value);
  send(file, name, token.value, {
    progress: (words) => say(words),
    done: (answer) => {
      setBusy(false);
      say('');
      showResult(answer, file);
    },
    failed: (status, words) => {
      setBusy(false);
      say('', words);
      if (status === 401) token.focus();
    },
  });
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
  byId('record').textContent = isRecording ? 'Stop, and score it' : 'Record with the microphone';
}

async function endRecording() {
  const stop = stopMicrophone;
  stopMicrophone = null;
  showRecording(false);
  score(await stop(), 'microphone.wav');
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
    say('Recording. Speak for some seconds.');
  } catch (error) {
    say('', microphoneProblem(error));
  }
  byId('record').disabled = false;
}

function startDropping(area) {
  const mark = (over) => area.classList.toggle('over', over);
  // A file that misses the field must not replace the page.
  for (const kind of ['dragover', 'drop']) window.addEventListener(kind, (event) => event.preventDefault());
  area.addEventListener('dragover', () => mark(true));
  area.addEventListener('dragleave', () => mark(false));
  area.addEventListener('drop', (event) => {
    mark(false);
    const file = event.dataTransfer.files[0];
    if (file && !byId('file').disabled) score(file, file.name);
  });
}

byId('token-field').hidden = !data.token;
// The token goes with the next recording.
byId('token-field').addEventListener('submit', (event) => event.preventDefault());
token.value = remember();
byId('file').addEventListener('change', ({ target }) => {
  const file = target.files[0];
  // The same file may be chosen again.
  if (file) score(file, file.name);
  target.value = '';
});
byId('record').addEventListener('click', () => (stopMicrophone ? endRecording() : beginRecording()));
byId('cancel').addEventListener('click', () => {
  cancelUpload();
  setBusy(false);
  say('Cancelled.');
});
startDropping(byId('drop'));
startTheme(byId('foot'));
drawnIn(byId('picture'), (width) => (shown ? drawPicture(width, shown) : []));
