// One recording after the other, scored on this machine: what the page of a service sends away stays in a worker here.
const WORKER_SCRIPTS = ['runtime/ort.wasm.min.js', 'page/resample.js', 'page/wav.js', 'page/windows.js', 'page/speech.js', 'page/engine.js'];
const MAX_THREADS = 8;
const threads = self.crossOriginIsolated ? Math.min(navigator.hardwareConcurrency || 1, MAX_THREADS) : 1;
const megabytes = (bytes) => `${bytes < 9.95e6 ? (bytes / 1e6).toFixed(1) : Math.round(bytes / 1e6)} MB`;
const networkBytes = data.files.graph.bytes;
const bar = document.getElementById('bar');
let worker = null;
let current_id = 0;
let job = null;
// Of this visit: what scoring has cost.
const spent = { seconds: 0, recorded: 0, memory: 0 };

function showCost(words = '') {
  const cores = threads > 1 ? `${threads} cores` : 'one core';
  const all = Object.values(data.files).reduce((sum, { bytes }) => sum + bytes, 0);
  const measured = spent.recorded
    ? `Measured here: ${(60 * spent.seconds / spent.recorded).toFixed(1)} s per minute of sound on ${cores}, and ${megabytes(spent.memory)} of memory for the network.`
    : `The first recording loads the network (${megabytes(networkBytes)}) and the program that runs it, ${megabytes(all)} in all, from this page's server. It computes on ${cores}.`;
  document.getElementById('cost').textContent = words || measured;
}

function showBar(done, total) {
  bar.hidden = !total;
  bar.max = total || 1;
  bar.value = done;
}

async function startWorker() {
  const parts = await Promise.all(WORKER_SCRIPTS.map(async (path) => {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(`The server of this page has no ${path} (status ${answer.status}). Copy the complete folder.`);
    return answer.text();
  }));
  // As a part of this page, not as a file of the server: only so does the page's policy hold for it.
  const address = URL.createObjectURL(new Blob([parts.join('\n')], { type: 'text/javascript' }));
  worker = new Worker(address);
  worker.onmessage = ({ data: message }) => MESSAGES[message.kind](message);
  worker.onerror = (event) => stopWorker(`The network cannot run in this browser: ${event.message || 'its program did not start'}.`);
  worker.postMessage({ kind: 'load', base: document.baseURI, files: data.files, threads });
}

// Whatever happened, the next recording begins anew.
function stopWorker(words) {
  worker?.terminate();
  worker = null;
  fail(words);
}

function fail(words) {
  const failed = job?.calls.failed;
  job = null;
  showBar(0, 0);
  failed?.(0, words);
}

// What messages of a recording begin with.
const ofRecording = (words) => (/^[a-z]/.test(words) ? `${job.name} ${words}` : words);

function remainingWords(milliseconds, done, total) {
  const seconds = Math.ceil((total - done) * milliseconds / done / 1000);
  if (seconds < 2) return '';
  return seconds < 90 ? `, about ${seconds} s left` : `, about ${Math.ceil(seconds / 60)} minutes left`;
}

const isCurrent = ({ id }) => job !== null && job.id === id;

const MESSAGES = {
  loading({ done, total }) {
    showBar(done, total);
    job?.calls.progress(`Loading the network: ${Math.floor(100 * done / total)} %`);
  },
  preparing() {
    bar.removeAttribute('value');
    job?.calls.progress('Preparing the network.');
  },
  ready({ memory }) {
    spent.memory = memory;
    job?.calls.progress('The detector is listening.');
  },
  cut(message) {
    if (isCurrent(message)) job.count = message.count;
  },
  scored(message) {
    if (!isCurrent(message)) return;
    const { done, milliseconds } = message;
    showBar(done, job.count);
    job.calls.progress(`The detector is listening: window ${done} of ${job.count}${remainingWords(milliseconds, done, job.count)}.`);
  },
  async undecoded(message) {
    if (!isCurrent(message)) return;
    // A WAV file in a format that only the browser may know.
    const asked = job;
    try {
      const buffer = await asked.file.arrayBuffer();
      await hand(asked, await decodeInBrowser(buffer, readHeader(new DataView(buffer))), 'this browser');
    } catch (error) {
      if (job === asked) fail(ofRecording(error.message));
    }
  },
  done(message) {
    if (!isCurrent(message)) return;
    spent.seconds += message.seconds;
    spent.recorded += message.recording.seconds;
    spent.memory = Math.max(spent.memory, message.memory);
    const { calls } = job;
    const answer = answerOf(job, message);
    job = null;
    showBar(0, 0);
    showCost();
    calls.done(answer);
  },
  failed({ id, words }) {
    if (id === null) stopWorker(memoryWords(words));
    else if (job?.id === id) fail(ofRecording(memoryWords(words)));
  },
};

function memoryWords(words) {
  if (!/memory|alloc|out of bounds/i.test(words)) return words;
  return `This browser does not have enough memory for the network, which needs about four times its ${megabytes(networkBytes)}. Close other pages, or use a machine with more memory. (${words})`;
}

// The document that `score --json` writes, with what made it.
function answerOf({ name, sha256, decoder }, { recording, outline, rate }) {
  const { scores, network, kind, threshold, decision, asdf, network_sha256 } = data;
  const options = { threshold, precision: data.precision, engine: `onnxruntime-web ${data.runtime}`, device: 'wasm', threads, max_samples: data.rules.max_samples,
    trial: false, window: data.window_s, hop: data.window_s / 2, speech_check: data.rules.speech_check ? 'built-in' : 'off' };
  const made = { asdf, network_sha256, graph_sha256: data.files.graph.sha256, runtime: `ONNX Runtime Web ${data.runtime}`, browser: navigator.userAgent,
    date: `${new Date().toISOString().slice(0, 19)}+00:00`, options };
  return { scores, network, kind, threshold, decision, precision: data.precision, ...(data.calibration ? { calibration: data.calibration } : {}), ...(data.part_search ? { part_search: data.part_search } : {}), recordings: [{ path: name, ...recording, sha256, sample_rate: rate, decoded_by: decoder }],
    complete: true, made_by: made, outline };
}

async function digestOf(buffer) {
  if (!self.crypto?.subtle) return null;
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', buffer));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

async function hand(asked, { samples, rate }, decoder) {
  if (samples.length / rate > data.max_seconds) throw new Error(`has ${Math.round(samples.length / rate)} s, but this page accepts up to ${data.max_seconds} s. Cut it.`);
  if (job !== asked) return;
  asked.decoder = decoder;
  post(asked, { decoded: samples, rate }, [samples.buffer]);
}

function post(asked, source, transferred) {
  const length = Math.round(data.window_s * RATE);
  const window = { length, hop: Math.floor(length / 2) };
  worker.postMessage({ kind: 'score', id: asked.id, source, rules: data.rules, window }, transferred);
}

async function begin(asked) {
  const buffer = await asked.file.arrayBuffer();
  if (!buffer.byteLength) throw new Error('is empty (0 bytes).');
  asked.sha256 = await digestOf(buffer);
  if (!worker) await startWorker();
  if (job !== asked) return;
  const view = new DataView(buffer);
  if (isWav(view)) {
    const { frames, rate } = readHeader(view);
    if (frames / rate > data.max_seconds) throw new Error(`has ${Math.round(frames / rate)} s, but this page accepts up to ${data.max_seconds} s. Cut it.`);
    asked.decoder = 'this page';
    post(asked, { wav: buffer }, [buffer]);
    return;
  }
  await hand(asked, await decodeInBrowser(buffer, kindOf(buffer)), 'this browser');
}

// Calls `progress` with what happens in words, then `done` with the answer or `failed` with words.
function send({ file, name }, token, calls) {
  cancelUpload();
  current_id += 1;
  const asked = { id: current_id, file, name, calls, sha256: null, decoder: '', count: 0 };
  job = asked;
  calls.progress('Reading the recording.');
  begin(asked).catch((error) => {
    if (job === asked) fail(ofRecording(error.message || String(error)));
  });
}

// Speakers are the service's.
const prepare = async (files) => files;

function cancelUpload() {
  if (!job) return;
  worker?.postMessage({ kind: 'cancel', id: job.id });
  job = null;
  showBar(0, 0);
}

// A page from a file may read no other files. What it says then stands in the page, and is hidden where it is served.
document.getElementById('serve-first').hidden = location.protocol !== 'file:';
document.getElementById('input').hidden = location.protocol === 'file:';
if (!self.crypto?.subtle) document.getElementById('no-digests').hidden = false;
showCost();
