// Whether there is speech in a recording (asdf/audio/speech_check.py, where all of this is explained): 26 numbers of segments
// of up to 4 s, weighed by small decision trees. Computed with doubles, which moves a number in its last digits only.
const SPEECH_MIN_S = 1;
const SEGMENT = 4 * RATE;
const FRAME = 512;
const FRAME_HOP = 256;
const FFT = 1024;
const BINS = FFT / 2 + 1;
const MODULATION_FFT = 512;
const MODULATION_RATE = RATE / FRAME_HOP;
const EDGES = [100, 250, 400, 630, 920, 1270, 1720, 2320, 3150, 3800];
const BANDS = EDGES.length - 1;
const [FIRST_LAG, LAST_LAG] = [40, 250];
const VOICED = 0.6;
const TINY = 1e-12;
const [ALL_RATES, SYLLABLES, RATTLE] = [[0.5, 28], [2, 9], [12, 28]];

const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);
const meanOf = (values) => sumOf(values) / values.length;
const deviationOf = (values) => {
  const mean = meanOf(values);
  return Math.sqrt(meanOf(values.map((value) => (value - mean) ** 2)));
};
const whereTrue = (values, flags) => values.filter((_, index) => flags[index]);
const decibels = (ratio, floor) => 10 * Math.log10(Math.max(ratio, floor));
const range = (count) => Array.from({ length: count }, (_, index) => index);

function quantile(values, share) {
  const sorted = Float64Array.from(values).sort();
  const position = share * (sorted.length - 1);
  const left = Math.min(Math.floor(position), sorted.length - 2);
  if (left < 0) return sorted[0];
  return sorted[left] + (position - left) * (sorted[left + 1] - sorted[left]);
}

// The power spectrum of real samples, zeros added up to `size`, a power of two: size / 2 + 1 values.
function powerSpectrum(samples, size) {
  const real = new Float64Array(size);
  const imaginary = new Float64Array(size);
  real.set(samples.length > size ? samples.slice(0, size) : samples);
  for (let i = 1, j = 0; i < size; i++) {
    let bit = size >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) [real[i], real[j]] = [real[j], real[i]];
  }
  for (let length = 2; length <= size; length *= 2) {
    const step = -2 * Math.PI / length;
    for (let k = 0; k < length / 2; k++) {
      const [cosine, sine] = [Math.cos(step * k), Math.sin(step * k)];
      for (let i = k; i < size; i += length) {
        const j = i + length / 2;
        const re = real[j] * cosine - imaginary[j] * sine;
        const im = real[j] * sine + imaginary[j] * cosine;
        [real[j], imaginary[j]] = [real[i] - re, imaginary[i] - im];
        real[i] += re;
        imaginary[i] += im;
      }
    }
  }
  return Float64Array.from(range(size / 2 + 1), (k) => real[k] ** 2 + imaginary[k] ** 2);
}

const hann = (count, period) => Float64Array.from(range(count), (i) => (period ? 0.5 - 0.5 * Math.cos(2 * Math.PI * i / period) : 1));
const FRAME_WINDOW = hann(FRAME, FRAME);
const FREQUENCIES = range(BINS).map((k) => k * RATE / FFT);
const BAND_OF = FREQUENCIES.map((hz) => EDGES.findLastIndex((edge) => edge <= hz)).map((band) => (band < BANDS ? band : -1));
// Of pitches: 70 to 1,600 Hz.
const PITCHED = range(BINS).filter((k) => FREQUENCIES[k] >= 70 && FREQUENCIES[k] <= 1600);
const COSINES = Float64Array.from(range(FFT), (i) => Math.cos(2 * Math.PI * i / FFT));

function windowCorrelation(lag) {
  let sum = 0;
  for (let i = 0; i + lag < FRAME; i++) sum += FRAME_WINDOW[i] * FRAME_WINDOW[i + lag];
  return sum;
}
const LAG_WEIGHTS = range(LAST_LAG).map((lag) => 1 / Math.max(windowCorrelation(lag), 1e-3 * windowCorrelation(0)));

function analyse(segment) {
  const gain = 0.1 / (deviationOf(Float64Array.from(segment)) + TINY);
  const power = [];
  for (let start = 0; start + FRAME <= segment.length; start += FRAME_HOP) {
    const frame = Float64Array.from(segment.subarray(start, start + FRAME), (value) => value * gain);
    const mean = meanOf(frame);
    power.push(powerSpectrum(frame.map((value, i) => (value - mean) * FRAME_WINDOW[i]), FFT));
  }
  const bands = power.map((spectrum) => {
    const sums = new Float64Array(BANDS);
    spectrum.forEach((value, k) => { if (BAND_OF[k] >= 0) sums[BAND_OF[k]] += value; });
    return sums;
  });
  const total = bands.map(sumOf);
  const loudest = quantile(total, 0.98) + TINY;
  const level = total.map((value) => decibels(value / loudest, 1e-5));
  let active = level.map((value) => value > -30);
  if (active.filter(Boolean).length < 8) {
    const least = Float64Array.from(level).sort().at(-Math.min(8, level.length));
    active = level.map((value) => value >= least);
  }
  return { power, bands, level, active };
}

// The share of a level's modulation at rates of syllables, and faster than a mouth moves.
function modulationShares(level) {
  const mean = meanOf(level);
  const window = hann(level.length, level.length - 1);
  const power = powerSpectrum(level.map((value, i) => (value - mean) * window[i]), MODULATION_FFT);
  const sumRates = ([low, high]) => sumOf(Array.from(power).filter((_, k) => k * MODULATION_RATE / MODULATION_FFT >= low && k * MODULATION_RATE / MODULATION_FFT < high));
  const whole = sumRates(ALL_RATES) + 1e-9;
  return [sumRates(SYLLABLES) / whole, sumRates(RATTLE) / whole];
}

function describeRhythm({ bands, level, active }) {
  const ofBands = range(BANDS).map((band) => {
    const values = bands.map((sums) => sums[band]);
    const loudest = quantile(values, 0.98) + TINY;
    return values.map((value) => decibels(value / loudest, 1e-4));
  });
  const depth = ofBands.map(deviationOf);
  const shares = ofBands.map(modulationShares);
  return [deviationOf(level), meanOf(active.map(Number)), ...modulationShares(level), meanOf(shares.map(([syllables]) => syllables)),
    meanOf(shares.map(([, rattle]) => rattle)), meanOf(depth), Math.min(...depth)];
}

// The height of a frame's pitch peak, 0 without one, and the pitch in semitones.
function findPitch(spectrum) {
  const correlationAt = (lag) => {
    let sum = 0;
    for (const k of PITCHED) sum += spectrum[k] * COSINES[(k * lag) % FFT];
    return 2 * sum / FFT * LAG_WEIGHTS[lag];
  };
  const first = Math.max(correlationAt(0), TINY);
  let [best, highest] = [0, -Infinity];
  for (let lag = FIRST_LAG; lag < LAST_LAG; lag++) {
    const value = correlationAt(lag) / first;
    if (value > highest) [best, highest] = [lag, value];
  }
  // At an end of the range it is a slope.
  const isPeak = best > FIRST_LAG && best < LAST_LAG - 1;
  return { peak: isPeak ? Math.min(Math.max(highest, 0), 1.2) : 0, pitch: 12 * Math.log2(RATE / best) };
}

function countLongRuns(flags) {
  let runs = 0;
  let length = 0;
  for (const flag of [...flags, false]) {
    if (!flag && length >= 4) runs += 1;
    length = flag ? length + 1 : 0;
  }
  return runs;
}

function describeVoice(active, peaks, pitch, seconds) {
  const voiced = active.map((flag, i) => flag && peaks[i] > VOICED);
  const pairs = range(voiced.length - 1).filter((i) => voiced[i] && voiced[i + 1]);
  const steps = pairs.map((i) => Math.abs(pitch[i + 1] - pitch[i]));
  const near = steps.filter((step) => step < 2);
  const voices = whereTrue(pitch, voiced);
  const frames = active.filter(Boolean).length;
  const activePeaks = whereTrue(peaks, active);
  return [voices.length / frames, near.length > 3 ? meanOf(near) : 0, near.filter((step) => step > 0.15).length / frames,
    (steps.length - near.length) / Math.max(1, pairs.length), voices.length > 3 ? deviationOf(voices) : 0,
    countLongRuns(voiced) / seconds, deviationOf(activePeaks), meanOf(activePeaks)];
}

function cepstraOf(sums) {
  const total = sumOf(sums);
  const level = Array.from(sums, (value) => 10 * Math.log10(Math.max(value, total * 1e-5) + TINY));
  const mean = meanOf(level);
  return range(5).map((order) => sumOf(level.map((value, band) => (value - mean) * Math.cos((order + 1) * (band + 0.5) * Math.PI / BANDS) * Math.sqrt(2 / BANDS))));
}

function describeMovement({ power, bands, active }) {
  const cepstra = bands.map(cepstraOf);
  const numbers = range(5).map((order) => deviationOf(whereTrue(cepstra, active).map((row) => row[order])));
  for (const lag of [1, 6]) {
    const moved = range(Math.max(0, cepstra.length - lag)).filter((i) => active[i] && active[i + lag]);
    const distances = moved.map((i) => Math.hypot(...cepstra[i].map((value, order) => cepstra[i + lag][order] - value)));
    numbers.push(distances.length ? meanOf(distances) : 0);
  }
  const logs = whereTrue(power, active).map((spectrum) => {
    const heard = spectrum.subarray(6, 243);
    const geometric = Math.exp(meanOf(heard.map((value) => Math.log(value + 1e-10))));
    return Math.log(geometric / (meanOf(heard) + 1e-10) + 1e-4);
  });
  return [...numbers, meanOf(logs), deviationOf(logs)];
}

// Vowels are voiced, and louder.
function correlate({ level, active }, peaks) {
  const voicing = whereTrue(peaks, active);
  const loudness = whereTrue(level, active);
  const deviations = deviationOf(voicing) * deviationOf(loudness);
  if (loudness.length <= 5 || !deviations) return 0;
  const [meanVoicing, meanLoudness] = [meanOf(voicing), meanOf(loudness)];
  return meanOf(voicing.map((value, i) => (value - meanVoicing) * (loudness[i] - meanLoudness))) / deviations;
}

function describeSegment(segment) {
  const frames = analyse(segment);
  const found = frames.power.map(findPitch);
  const peaks = found.map(({ peak }) => peak);
  const pitch = found.map((each) => each.pitch);
  return [...describeRhythm(frames), ...describeVoice(frames.active, peaks, pitch, segment.length / RATE), ...describeMovement(frames), correlate(frames, peaks)];
}

// The trees' sum: the higher, the more speech.
function speechEvidence(segment, { base, feature, limit, left, right, value }) {
  const numbers = describeSegment(segment).map((number) => (Number.isNaN(number) ? 0 : number));
  return base + sumOf(feature.map((_, tree) => {
    let [node, last] = [0, -1];
    // A leaf leads to itself.
    while (node !== last) {
      last = node;
      node = numbers[feature[tree][node]] <= limit[tree][node] ? left[tree][node] : right[tree][node];
    }
    return value[tree][node];
  }));
}

// Whether there is speech in any 4 s of a recording; in doubt there is.
function hasSpeech(samples, trees) {
  if (!trees || samples.length < SPEECH_MIN_S * RATE) return true;
  const segments = samples.length <= SEGMENT ? [[0, samples.length]] : cutWindows(samples.length, SEGMENT, SEGMENT / 2);
  return segments.some(([start, end]) => speechEvidence(samples.subarray(start, end), trees) >= trees.threshold);
}
