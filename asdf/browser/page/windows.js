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

function whyNotJudged(samples, allSilent, anySpeech) {
  if (allSilent) return `not judged: digital silence (nothing above ${SILENCE_DB} dB of full scale)`;
  if (samples < MIN_SPEECH_S * RATE) return `not judged: ${(samples / RATE).toFixed(2)} s are too short (under ${MIN_SPEECH_S} s of speech)`;
  if (!anySpeech) return 'not judged: no speech found';
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

// Percentiles of the LLRs by the maps of the bootstrap, within the bounds: 95 %, and the LLR itself is in it.
function llrInterval(raw, llr, calibration) {
  const { replicates, map_scores: knots, scale, lowest_llr: lowest, highest_llr: highest } = calibration;
  if (!replicates) return null;
  const llrs = replicates.map((row) => mapped(raw, knots ? { scale, map_scores: knots, map_llrs: row } : { scale: row[0], offset: row[1] }));
  const bounded = [0.025, 0.975].map((share) => Math.min(Math.max(quantile(llrs, share), lowest ?? -Infinity), highest ?? Infinity));
  return [Math.min(bounded[0], llr), Math.max(bounded[1], llr)];
}

// The words of the ENFSI guideline of 2015, and the lowest ratio of each.
const STRENGTHS = [[1e6, 'extremely strong'], [1e4, 'very strong'], [1e3, 'strong'], [100, 'moderately strong'], [10, 'moderate'], [2, 'weak']];

function llrWords(llr) {
  const found = STRENGTHS.find(([ratio]) => Math.abs(llr) >= Math.log(ratio) - 1e-12);
  if (!found) return 'no support for one proposition over the other';
  return `${found[1]} support for ${llr > 0 ? 'bona fide rather than spoof' : 'spoof rather than bona fide'}`;
}

// What is known of a likelihood ratio, as `score --json` has it: no words of one that is not judged, nothing of a score that
// is no ratio.
function llrEntries(raw, rules, isJudged) {
  const { calibration } = rules;
  if (!calibration) return {};
  const llr = shownScore(raw, rules);
  const unbounded = mapped(raw, calibration);
  const interval = llrInterval(raw, llr, calibration);
  return { llr, log10_llr: llr / Math.LN10, ...(isJudged ? { llr_words: llrWords(llr) } : {}), ...(interval ? { llr_interval: interval } : {}),
    ...(unbounded === llr ? {} : { unbounded_llr: unbounded }) };
}

function limitWords(raw, rules) {
  const { calibration } = rules;
  if (!calibration || shownScore(raw, rules) === mapped(raw, calibration)) return '';
  const { bona_fide: genuine, spoof } = calibration;
  const count = (value) => value.toLocaleString('en-US');
  const size = genuine && spoof ? `${count(genuine)} + ${count(spoof)}` : 'the';
  return `LLR at the limit of what ${size} recordings support`;
}

function shownWindow({ start, end, raw }, rules) {
  const score = shownScore(raw, rules);
  const unbounded = decisiveScore(raw, rules);
  return { start_s: start / RATE, end_s: end / RATE, score, ...(unbounded === score ? {} : { unbounded_llr: unbounded }) };
}

const isSearched = (length, { search }) => Boolean(search) && length > 2 * search.window;

// The parts that sound spoofed by themselves: windows below the threshold, joined where they overlap or touch. What is silent
// is in none, nor what has no speech.
function findParts(windows, rules) {
  const { window, hop, threshold } = rules.search;
  const judged = windows.filter(({ silent, speech = true }) => !silent && speech);
  const parts = [];
  for (const each of judged) {
    if (!(decisiveScore(each.raw, rules) < threshold)) continue;
    const shown = shownWindow(each, rules);
    const last = parts.at(-1);
    if (last && shown.start_s <= last.end_s) parts.splice(-1, 1, { start_s: last.start_s, end_s: shown.end_s, score: Math.min(last.score, shown.score) });
    else parts.push(shown);
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
  const problem = whyNotJudged(length, allSilent, windows.some(({ speech = true }) => speech));
  const isJudged = !problem && rules.threshold !== null;
  const lowest = counted.reduce((least, window) => (window.raw < least.raw ? window : least));
  const about = problem || (silent ? `${silent} of ${windows.length} windows are digital silence and do not count` : '');
  const remark = [about, problem ? '' : limitWords(raw, rules)].filter(Boolean).join('; ');
  const found = searchedWindows.length ? findParts(searchedWindows, rules) : { parts: [] };
  const verdict = isJudged ? verdictOf(decisiveScore(raw, rules), rules.threshold, found.parts) : null;
  return { score, verdict, raw, ...llrEntries(raw, rules, !problem), seconds: length / RATE, seconds_scored: countCovered(counted) / RATE,
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
