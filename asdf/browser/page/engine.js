// The worker: the network's graph in ONNX Runtime, and the scores of one recording at a time, so that the page stays free.
let loaded = null;
let cancelled = 0;
const memories = [];
const PlainMemory = WebAssembly.Memory;

// The runtime states nowhere how much memory it has taken.
WebAssembly.Memory = class extends PlainMemory {
  constructor(limits) {
    super(limits);
    memories.push(this);
  }
};
const memoryBytes = () => memories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);

// Browsers give digests to pages with https, or of this same machine, only: null elsewhere.
async function sha256(bytes) {
  if (!self.crypto?.subtle) return null;
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

// A file of the page's folder, whole and as it was exported, or an error.
async function fetchFile(base, { path, bytes, sha256: expected }, progress) {
  const answer = await fetch(new URL(path, base), { credentials: 'same-origin' });
  if (!answer.ok) throw new Error(`The server of this page has no ${path} (status ${answer.status}). Copy the complete folder.`);
  const content = new Uint8Array(bytes);
  const reader = answer.body.getReader();
  let at = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if (at + part.value.length > bytes) throw new Error(`${path} is longer than the file that belongs to this page. Copy the complete folder.`);
    content.set(part.value, at);
    at += part.value.length;
    progress(part.value.length);
  }
  if (at < bytes) throw new Error(`${path} came with ${at} of ${bytes} bytes. Reload the page.`);
  const digest = await sha256(content);
  if (digest !== null && digest !== expected) throw new Error(`${path} is not the file that belongs to this page: its digest differs. Copy the complete folder.`);
  return content;
}

async function load({ base, files, threads }) {
  const total = Object.values(files).reduce((sum, file) => sum + file.bytes, 0);
  let done = 0;
  const progress = (bytes) => {
    done += bytes;
    postMessage({ kind: 'loading', done, total });
  };
  const wasm = await fetchFile(base, files.wasm, progress);
  const glue = await fetchFile(base, files.glue, progress);
  // From memory: the policy of the page holds for what begins there, and no server's type of .mjs files matters.
  ort.env.wasm.wasmPaths = { mjs: URL.createObjectURL(new Blob([glue], { type: 'text/javascript' })) };
  ort.env.wasm.wasmBinary = wasm.buffer;
  ort.env.wasm.numThreads = threads;
  ort.env.logLevel = 'error';
  const graph = await fetchFile(base, files.graph, progress);
  postMessage({ kind: 'preparing' });
  return ort.InferenceSession.create(graph, { executionProviders: ['wasm'] });
}

async function scorePiece(samples, rules) {
  const heard = heardOf(samples, rules);
  const outputs = await loaded.run({ waveforms: new ort.Tensor('float32', heard, [1, heard.length]) }, ['logits']);
  const raw = rawScore(outputs.logits.data, rules.score);
  outputs.logits.dispose?.();
  return raw;
}

// Messages, such as one that cancels, come in between.
const pause = () => new Promise((resolve) => { setTimeout(resolve); });

// Scores pieces [start, end] once each, whatever windows they are of.
async function scorePieces(id, samples, pieces, rules) {
  const scored = new Map();
  const began = performance.now();
  for (const [start, end] of pieces) {
    const key = `${start} ${end}`;
    if (scored.has(key)) continue;
    const part = samples.subarray(start, end);
    scored.set(key, { start, end, silent: isSilent(part), speech: hasSpeech(part, rules.speech_check), raw: await scorePiece(part, rules) });
    postMessage({ kind: 'scored', id, done: scored.size, milliseconds: performance.now() - began, memory: memoryBytes() });
    await pause();
    if (cancelled >= id) throw new Error('Cancelled.');
  }
  return { of: ([start, end]) => scored.get(`${start} ${end}`), milliseconds: performance.now() - began };
}

function takeSamples({ wav, decoded, rate }) {
  const mono = wav ? readWav(wav) : { samples: decoded, rate };
  if (!mono) return null;
  if (!(mono.rate >= LOWEST_RATE && mono.rate <= HIGHEST_RATE)) throw new Error(`states a sampling rate of ${mono.rate} Hz. Its header is likely damaged: copy or download it again.`);
  if (!mono.samples.length) throw new Error('holds no samples. The program that wrote it likely stopped before the end.');
  return { samples: resample(mono.samples, mono.rate), rate: mono.rate };
}

async function score({ id, source, rules, window }) {
  if (cancelled >= id) return;
  const taken = takeSamples(source);
  if (!taken) {
    postMessage({ kind: 'undecoded', id });
    return;
  }
  const { samples, rate } = taken;
  const limit = rules.max_samples;
  const whole = cutWindows(samples.length, limit, limit);
  const overTime = cutWindows(samples.length, window.length, window.hop);
  const searched = isSearched(samples.length, rules) ? cutWindows(samples.length, rules.search.window, rules.search.hop) : [];
  const pieces = [...whole, ...overTime, ...searched];
  const count = new Set(pieces.map(String)).size;
  postMessage({ kind: 'cut', id, count });
  const results = await scorePieces(id, samples, pieces, rules);
  const recording = concludeWhole(whole.map(results.of), samples.length, rules, searched.map(results.of));
  recording.windows = overTime.map((piece) => shownWindow(results.of(piece), rules));
  const seconds = results.milliseconds / 1000;
  postMessage({ kind: 'done', id, recording, outline: outlineOf(samples, 1200), rate, seconds, memory: memoryBytes() });
}

// One after the other: a recording that is cancelled ends between two windows.
let queue = Promise.resolve();
self.onmessage = ({ data: message }) => {
  if (message.kind === 'cancel') {
    cancelled = message.id;
    return;
  }
  queue = queue.then(async () => {
    try {
      if (message.kind === 'load') {
        loaded = await load(message);
        postMessage({ kind: 'ready', memory: memoryBytes() });
      } else await score(message);
    } catch (error) {
      postMessage({ kind: 'failed', id: message.id ?? null, words: error.message || String(error) });
    }
  });
};
