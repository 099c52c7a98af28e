// One recording on its way to the service.
let request = null;

function failureWords(status, message) {
  if (status === 0) return 'The service did not answer. Is the connection there, and the service running?';
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

// Calls `progress` with what happens in words, then `done` with the answer or `failed` with words.
function send(file, name, token, { progress, done, failed }) {
  cancelUpload();
  const form = new FormData();
  form.append('file', file, name);
  const query = new URLSearchParams({ window: data.window_s, hop: data.window_s / 2, outline: 1200 });
  const sending = new XMLHttpRequest();
  request = sending;
  sending.open('POST', `score?${query}`);
  if (token) sending.setRequestHeader('Authorization', `Bearer ${token}`);
  sending.upload.addEventListener('progress', (event) => {
    const sent = event.lengthComputable ? Math.floor(100 * event.loaded / event.total) : 0;
    progress(sent < 100 ? `Sending: ${sent} %` : 'The detector is listening.');
  });
  sending.addEventListener('loadend', () => {
    if (request !== sending) return;
    request = null;
    const answer = readAnswer(sending.responseText);
    if (sending.status === 200) done(answer);
    else failed(sending.status, failureWords(sending.status, answer.error));
  });
  sending.send(form);
}

function cancelUpload() {
  const sending = request;
  request = null;
  if (sending) sending.abort();
}
