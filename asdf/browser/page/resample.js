// Any sampling rate to 16 kHz, as ASDF does it (asdf/audio/sample_rates.py): a sinc of 6 zero crossings, cut off at 0.99 of
// the lower Nyquist frequency, under a Hann window. A browser's own resampler has another filter, and gives other scores.
const RATE = 16000;
const ZERO_CROSSINGS = 6;
const ROLLOFF = 0.99;
// A rate outside of these is that of a damaged header.
const LOWEST_RATE = 1000;
const HIGHEST_RATE = 1000000;

const resampledLength = (frames, rate) => Math.ceil(frames * RATE / rate);

function commonDivisor(a, b) {
  return b ? commonDivisor(b, a % b) : a;
}

// How many samples to either side of an output sample its filter reaches.
const halfWidth = (rate) => Math.ceil(ZERO_CROSSINGS * Math.max(1, rate / RATE) / ROLLOFF);

// Numbers of a table beyond which ASDF computes each filter anew.
const LARGEST_TABLE = 2 ** 23;

// The filters of a rate: `ofPhase(i)` is that of output sample i of a period, over input samples from `width` before it on.
function filterBank(rate) {
  const step = commonDivisor(rate, RATE);
  const [from, to] = [rate / step, RATE / step];
  const width = halfWidth(rate);
  // The tables that ASDF takes from torchaudio are computed in float32. At rates such as 11,025 Hz that shows in scores.
  const round = (2 * width + from) * to > LARGEST_TABLE ? (value) => value : Math.fround;
  const [pi, base] = [round(Math.PI), round(ROLLOFF * Math.min(from, to))];
  const scale = round(ROLLOFF * Math.min(from, to) / from);
  const weightAt = (i, k) => {
    const position = round(round(round(-i / to) + round(k / from)) * base);
    const t = Math.max(-ZERO_CROSSINGS, Math.min(ZERO_CROSSINGS, position));
    const angle = round(t * pi);
    const half = round(Math.cos(round(angle / ZERO_CROSSINGS) / 2));
    const sinc = angle === 0 ? 1 : round(round(Math.sin(angle)) / angle);
    return sinc * round(round(half * half) * scale);
  };
  const filters = new Array(to);
  const make = (i) => {
    const nearest = Math.floor(i * from / to);
    return Float32Array.from({ length: 2 * width + 2 }, (_, tap) => weightAt(i, nearest + tap - width));
  };
  return { width, step, ofPhase: (i) => (filters[i] ??= make(i)) };
}

// `samples` at `rate` Hz, a Float32Array, at 16 kHz.
function resample(samples, rate) {
  if (rate === RATE) return samples;
  const { width, step, ofPhase } = filterBank(rate);
  const output = new Float32Array(resampledLength(samples.length, rate));
  for (let j = 0; j < output.length; j++) {
    const nearest = Math.floor(j * rate / RATE);
    const filter = ofPhase(j % (RATE / step));
    const begin = Math.max(0, width - nearest);
    const end = Math.min(filter.length, samples.length - nearest + width);
    let sum = 0;
    for (let tap = begin; tap < end; tap++) sum += filter[tap] * samples[nearest - width + tap];
    output[j] = sum;
  }
  return output;
}
