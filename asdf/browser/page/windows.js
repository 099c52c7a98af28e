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

// The log-likelihood ratio of a network's score: affine, or linear between knots and with `scale` as its slope beyond them.
function mapped(raw, { scale, offset, map_scores: knots, map_llrs: llrs }) {
  if (!knots) return scale * raw + offset;
  const last = knots.length - 1;
  if (raw <= knots[0]) return llrs[0] + scale * (raw - knots[0]);
  if (raw >= knots[last]) return llrs[last] + scale * (raw - knots[last]);
  const right = knots.findIndex((knot) => knot > raw);
  const share = (raw - knots[right - 1]) / (knots[right] - knots[right - 1]);
  return llrs[right - 1] + share * (llrs[right] - llrs[right - 1]);
}

// The score that is shown for the network's: of a calibrated one the ratio, within the bounds that its set supports.
function shownScore(raw, { calibration }) {
  if (!calibration) return raw;
  const { lowest_llr: lowest, highest_llr: highest } = calibration;
  return Math.min(Math.max(mapped(raw, calibration), lowest ?? -Infinity), highest ?? Infinity);
}

// What is compared with thresholds: bounds limit what is claimed, and no decision.
const decisiveScore = (raw, { calibration }) => (calibration ? mapped(raw, calibration) : raw);

const shownWindow = ({ start, end, raw }, rules) => ({ start_s: start / RATE, end_s: end / RATE, score: shownScore(raw, rules) });

const isSearched = (length, { search }) => Boolean(search) && length > 2 * search.window;

// The parts that sound spoofed by themselves: windows below the threshold, joined where they overlap or touch. What is silent
// is in none.
function findParts(windows, rules) {
  const { window, hop, threshold } = rules.search;
  const judged = windows.filter(({ silent }) => !silent);
  const parts = [];
  for (const each of judged) {
    if (!(decisiveScore(each.raw, rules) < threshold)) continue;
    const { start_s: start, end_s: end, score } = shownWindow(each, rules);
    const last = parts.at(-1);
    if (last && start <= last.end_s) Object.assign(last, { end_s: end, score: Math.min(last.score, score) });
    else parts.push({ start_s: start, end_s: end, score });
  }
  return { parts, searched: { windows: judged.length, window_s: window / RATE, hop_s: hop / RATE, threshold, false_alarms: null } };
}

function verdictOf(score, threshold, parts) {
  if (score < threshold) return 'spoof';
  return parts.length ? 'mixed' : 'bona fide';
}

// The result of a recording of `length` samples from its windows [{start, end, silent, raw}], and from those in which parts
// are searched for, as `score --json` has it.
function concludeWhole(windows, length, rules, searchedWindows = []) {
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
  const found = searchedWindows.length ? findParts(searchedWindows, rules) : { parts: [] };
  const verdict = isJudged ? verdictOf(decisiveScore(raw, rules), rules.threshold, found.parts) : null;
  return { score, verdict, raw, seconds: length / RATE, seconds_scored: countCovered(counted) / RATE,
    ...(windows.length > 1 ? { lowest: shownWindow(lowest, rules) } : {}), ...(found.searched ? found : {}), ...(remark ? { remark } : {}) };
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
