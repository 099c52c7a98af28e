// The sampling rate that a file states, so that the browser decodes it at that rate and resamples nothing itself.
const ELSE_RATE = 48000;
const MP3_RATES = [44100, 48000, 32000];
// Of MPEG 2.5, -, 2 and 1: by what their rates are divided.
const MP3_DIVISORS = [4, 0, 2, 1];
// What every browser offers.
const LOWEST_CONTEXT_RATE = 8000;
const HIGHEST_CONTEXT_RATE = 96000;

function findBytes(bytes, wanted, from = 0, until = bytes.length) {
  const first = wanted.charCodeAt(0);
  for (let at = bytes.indexOf(first, from); at >= 0 && at + wanted.length <= until; at = bytes.indexOf(first, at + 1)) {
    if ([...wanted].every((letter, i) => bytes[at + i] === letter.charCodeAt(0))) return at;
  }
  return -1;
}

// Where the sound begins, behind a tag.
function behindTag(view) {
  if (textAt(view, 0, 3) !== 'ID3' || view.byteLength < 10) return 0;
  const size = [6, 7, 8, 9].reduce((sum, at) => sum * 128 + (view.getUint8(at) & 0x7f), 0);
  return 10 + size;
}

// Of the whole numbers of 16 bits and less some browsers divide the positive ones by 32,767, ASDF and others by 32,768.
function restoreScale(values) {
  const isWhole = (value, factor) => Math.abs(value * factor - Math.round(value * factor)) < 0.01;
  const isOther = values.some((value) => value > 0 && !isWhole(value, 32768)) && values.every((value) => value <= 0 || isWhole(value, 32767));
  return isOther ? values.map((value) => (value > 0 ? Math.round(value * 32767) / 32768 : value)) : values;
}

// Bits of a sample of FLAC, whose block of information begins at `at`.
const flacBits = (view, at) => ((view.getUint8(at + 12) & 1) << 4 | view.getUint8(at + 13) >> 4) + 1;

const flacRate = (view, at) => (view.getUint16(at + 10) << 4) | (view.getUint8(at + 12) >> 4);

function oggRate(view) {
  const at = 27 + view.getUint8(26);
  if (textAt(view, at, 8) === 'OpusHead') return 48000;
  if (textAt(view, at + 1, 6) === 'vorbis') return view.getUint32(at + 12, true);
  return textAt(view, at + 1, 4) === 'FLAC' ? flacRate(view, at + 17) : 0;
}

function mp3Rate(view, from) {
  const end = Math.min(view.byteLength - 4, from + 65536);
  for (let at = from; at < end; at++) {
    if (view.getUint8(at) !== 0xff || (view.getUint8(at + 1) & 0xe6) < 0xe2) continue;
    const divisor = MP3_DIVISORS[(view.getUint8(at + 1) >> 3) & 3];
    const rate = MP3_RATES[(view.getUint8(at + 2) >> 2) & 3];
    if (divisor && rate) return rate / divisor;
  }
  return 0;
}

// The first number of bytes B5 84 or B5 88 is the rate of a track of WebM, which begins near the start.
function webmRate(view) {
  const end = Math.min(view.byteLength - 10, 65536);
  for (let at = 0; at < end; at++) {
    if (view.getUint8(at) !== 0xb5) continue;
    if (view.getUint8(at + 1) === 0x84) return view.getFloat32(at + 2);
    if (view.getUint8(at + 1) === 0x88) return view.getFloat64(at + 2);
  }
  return 0;
}

// {name, rate, isShort} of a file; rate is 0 where it is not known; isShort: samples are whole numbers of 16 bits or less.
function kindOf(buffer) {
  const view = new DataView(buffer);
  if (view.byteLength < 48) return { name: 'unknown', rate: 0 };
  const sound = behindTag(view);
  if (sound + 48 < view.byteLength && textAt(view, sound, 4) === 'fLaC') return { name: 'FLAC', rate: flacRate(view, sound + 8), isShort: flacBits(view, sound + 8) <= 16 };
  if (textAt(view, 0, 4) === 'OggS') return { name: 'Ogg', rate: oggRate(view) };
  if (textAt(view, 4, 4) === 'ftyp') {
    const entry = findBytes(new Uint8Array(buffer), 'mp4a');
    return { name: 'MP4', rate: entry >= 0 && entry + 30 <= view.byteLength ? view.getUint16(entry + 28) : 0 };
  }
  if (view.getUint32(0) === 0x1a45dfa3) return { name: 'WebM', rate: webmRate(view) };
  const rate = mp3Rate(view, sound);
  return { name: rate ? 'MP3' : 'unknown', rate };
}

// {samples, rate}, mono, of a file that this browser decodes.
async function decodeInBrowser(buffer, { rate, isShort }) {
  const isOffered = rate >= LOWEST_CONTEXT_RATE && rate <= HIGHEST_CONTEXT_RATE;
  const context = new OfflineAudioContext(1, 1, isOffered ? rate : ELSE_RATE);
  let audio;
  try {
    audio = await context.decodeAudioData(buffer);
  } catch {
    throw new Error('cannot be decoded by this browser. Convert it to WAV or FLAC.');
  }
  const channels = Array.from({ length: audio.numberOfChannels }, (_, channel) => audio.getChannelData(channel));
  const scaled = isShort ? channels.map(restoreScale) : channels;
  const samples = average(audio.length, scaled.map((values) => (frame) => values[frame]));
  return { samples, rate: audio.sampleRate };
}
