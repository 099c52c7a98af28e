// What ASDF makes of a recording and its windows (asdf/scoring): windows of the network's length, their mean, the lowest one.
// Shorter than this, or below this level, there is nothing to judge.
const MIN_SPEECH_S = 0.5;
const SILENCE_DB = -80;

// [start, end] of windows of `window` samples every `hop`; one last window ends where the recording ends.
function cutWindows(length, window, hop) {
  const windows = [];
  let start = 0;
  for (; start + window <= length; start += hop) windows.push([start, start + window]);
  const isCovered = windows.length && windows.at(-1)[1] === length;
  if (!isCovered) windows.push([Math.max(0, length - window), length]);
  return windows;
}

// Samples that are all equal, or hardly move: an offset of the converter is no sound.
function isSilent(samples) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of samples) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return (high - low) / 2 < 10 ** (SILENCE_DB / 20);
}

// What the network hears of a window: repeated up to the least that it takes, cut at the most.
function heardOf(samples, { min_samples: least, max_samples: most }) {
  const count = Math.min(Math.max(samples.length, least), most);
  if (samples.length >= count) return samples.subarray(0, count);
  const repeated = new Float32Array(count);
  for (let at = 0; at < count; at += samples.length) repeated.set(samples.subarray(0, Math.min(samples.length, count - at)), at);
  return repeated;
}

// The network's score from its logits (spoof, bona fide).
const rawScore = (logits, rule) => (rule === 'bona_fide' ? logits[1] : Math.fround(logits[1] - logits[0]));

// Samples in any of the windows, which are in order and may overlap.
function countCovered(windows) {
  let covered = 0;
  let end = 0;
  for (const window of windows) {
    covered += window.end - Math.max(end, window.start);
    end = window.end;
  }
  return covered;
}

function whyNotJudged(samples, allSilent) {
  if (allSilent) return `not judged: digital silence (nothing above ${SILENCE_DB} dB of full scale)`;
  if (samples < MIN_SPEECH_S * RATE) return `not judged: ${(samples / RATE).toFixed(2)} s are too short (under ${MIN_SPEECH_S} s of speech)`;
  return '';
}

// The score that is shown for the network's: a natural-log likelihood ratio where the network is calibrated.
const shownScore = (raw, { calibration }) => (calibration ? calibration.scale * raw + calibration.offset : raw);

const shownWindow = ({ start, end, raw }, rules) => ({ start_s: start / RATE, end_s: end / RATE, score: shownScore(raw, rules) });

// The result of a recording of `length` samples from its windows [{start, end, silent, raw}], as `score --json` has it.
function concludeWhole(windows, length, rules) {
  const silent = windows.filter((window) => window.silent).length;
  const allSilent = silent === windows.length;
  // Of nothing but silence, every window counts.
  const counted = allSilent ? windows : windows.filter((window) => !window.silent);
  const raw = counted.reduce((sum, window) => sum + window.raw, 0) / counted.length;
  if (!Number.isFinite(raw)) throw new Error('gets a score that is not a finite number: the network has probably diverged.');
  const score = shownScore(raw, rules);
  const problem = whyNotJudged(length, allSilent);
  const isJudged = !problem && rules.threshold !== null;
  const lowest = counted.reduce((least, window) => (window.raw < least.raw ? window : least));
  const remark = problem || (silent ? `${silent} of ${windows.length} windows are digital silence and do not count` : '');
  const verdict = isJudged ? (score >= rules.threshold ? 'bona fide' : 'spoof') : null;
  return { score, verdict, raw, seconds: length / RATE, seconds_scored: countCovered(counted) / RATE,
    ...(windows.length > 1 ? { lowest: shownWindow(lowest, rules) } : {}), ...(remark ? { remark } : {}) };
}

// The lowest and highest sample of up to `points` equal parts, for a picture.
function outlineOf(samples, points) {
  const count = Math.min(points, samples.length);
  const low = [];
  const high = [];
  for (let part = 0; part < count; part++) {
    const end = Math.floor((part + 1) * samples.length / count);
    let [least, most] = [Infinity, -Infinity];
    for (let i = Math.floor(part * samples.length / count); i < end; i++) {
      least = Math.min(least, samples[i]);
      most = Math.max(most, samples[i]);
    }
    low.push(Number(least.toFixed(4)));
    high.push(Number(most.toFixed(4)));
  }
  return { low, high };
}
