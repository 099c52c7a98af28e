// One recording on its way to the service.
const TRIES = 5;
const EVERY_MS = 2000;
const LISTENING = 'The detector is listening.';
let request = null;

function failureWords(status, message) {
  if (status === 0) return 'The service did not answer. Is it running, and is there a connection to it?';
  if (status === 401) return 'The token is missing or wrong. Whoever runs this service has it.';
  return message || `The service answered with status ${status}.`;
}

function readAnswer(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}

// Seconds after which a service that is busy may be asked again; null where it is no matter of time.
function secondsToWait(sending, tries) {
  const isBusy = sending.status === 429 || sending.status === 503;
  const seconds = Number(sending.getResponseHeader('Retry-After'));
  return isBusy && seconds > 0 && tries < TRIES ? seconds : null;
}

function waitAndSend(seconds, words, again, progress) {
  let left = seconds;
  const tick = () => {
    progress(`${words} It is sent again in ${left} s.`);
    if (left-- > 0) request = { timer: setTimeout(tick, 1000) };
    else again();
  };
  tick();
}

// Says how long it will take until the answer comes, as far as the service knows.
async function showTimeLeft(sending, progress) {
  const { seconds_left: left } = await fetch('health').then((answer) => answer.json()).catch(() => ({}));
  if (request !== sending) return;
  progress(left ? `${LISTENING} ${leftWords(left)}` : LISTENING);
  setTimeout(() => showTimeLeft(sending, progress), EVERY_MS);
}

// Calls `progress` with what happens in words, then `done` with the answer or `failed` with words.
function send(entry, token, calls, tries = 1) {
  const { progress, done, failed } = calls;
  cancelUpload();
  const form = new FormData();
  form.append('file', entry.file, entry.name);
  if (entry.turns) form.append('rttm', entry.turns, 'turns.rttm');
  const query = new URLSearchParams({ window: data.window_s, hop: data.window_s / 2, outline: 4000 });
  const sending = new XMLHttpRequest();
  request = sending;
  sending.open('POST', `score?${query}`);
  if (token) sending.setRequestHeader('Authorization', `Bearer ${token}`);
  sending.upload.addEventListener('progress', (event) => {
    const sent = event.lengthComputable ? Math.floor(100 * event.loaded / event.total) : 0;
    progress(sent < 100 ? `Sending: ${sent} %` : LISTENING);
  });
  sending.upload.addEventListener('load', () => setTimeout(() => showTimeLeft(sending, progress), EVERY_MS));
  sending.addEventListener('loadend', () => {
    if (request !== sending) return;
    request = null;
    const answer = readAnswer(sending.responseText);
    const seconds = secondsToWait(sending, tries);
    if (sending.status === 200) done(answer);
    else if (seconds !== null) waitAndSend(seconds, failureWords(sending.status, answer.error), () => send(entry, token, calls, tries + 1), progress);
    else failed(sending.status, failureWords(sending.status, answer.error));
  });
  sending.send(form);
}

function cancelUpload() {
  const sending = request;
  request = null;
  if (sending && sending.timer) clearTimeout(sending.timer);
  else if (sending) sending.abort();
}
