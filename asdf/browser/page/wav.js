// WAV files as ASDF reads them: full scale is 1, channels are averaged. A browser's decoder scales samples in its own way.
const PCM = 1, FLOAT = 3, A_LAW = 6, MU_LAW = 7, EXTENSIBLE = 0xfffe;
// Sizes from here on are placeholders of programs that wrote to a pipe, as is 0.
const PLACEHOLDER_BYTES = 0x7ffff000;
// Behind the samples: what is no chunk, and no sound of any length either.
const MAX_UNKNOWN = 1024;
// What is larger has no loudness that a recording can have.
const LARGEST = 2 ** 15;
const CUT_OFF = 'It was likely cut off or damaged by a copy. Copy or download it again.';

const textAt = (view, at, count) => String.fromCharCode(...new Uint8Array(view.buffer, view.byteOffset + at, Math.max(0, Math.min(count, view.byteLength - at))));

const isWav = (view) => ['RIFF', 'RF64'].includes(textAt(view, 0, 4)) && textAt(view, 8, 4) === 'WAVE';

function readFormat(view, at, size) {
  let code = view.getUint16(at, true);
  // The real code begins the identifier of the extension.
  if (code === EXTENSIBLE && size >= 26) code = view.getUint16(at + 24, true);
  return { code, channels: view.getUint16(at + 2, true), rate: view.getUint32(at + 4, true), frameBytes: view.getUint16(at + 12, true), bits: view.getUint16(at + 14, true) };
}

// Sound behind the samples would be left out in silence.
function checkRest(view, at) {
  while (at + 8 <= view.byteLength) {
    const name = textAt(view, at, 4);
    const size = view.getUint32(at + 4, true);
    if (name === 'data' || name === 'RIFF' || name === 'RF64') throw new Error(`would be heard in part only: other samples follow at byte ${at}. Write all of it to a new file.`);
    const end = at + 8 + size + size % 2;
    if (!/^[\x20-\x7e]{4}$/.test(name) || end > view.byteLength + 1) break;
    at = end;
  }
  if (view.byteLength - at > MAX_UNKNOWN) throw new Error(`would be heard in part only: ${view.byteLength - at} bytes follow its samples. Write all of it to a new file.`);
}

// {code, channels, rate, frameBytes, bits, start, frames} of a WAV file's header; frames are those that are there.
function readHeader(view) {
  let format = null;
  let wide = 0;
  for (let at = 12; at + 8 <= view.byteLength;) {
    const name = textAt(view, at, 4);
    let size = view.getUint32(at + 4, true);
    const start = at + 8;
    const left = view.byteLength - start;
    if (name === 'ds64' && left >= 16) wide = Number(view.getBigUint64(start + 8, true));
    if (name === 'fmt ' && size >= 16 && left >= 16) format = readFormat(view, start, Math.min(size, left));
    if (name === 'data') {
      if (!format || !format.frameBytes || !format.channels) break;
      if (size === 0xffffffff && wide) size = wide;
      const isOpen = size === 0 || (size >= PLACEHOLDER_BYTES && size !== wide);
      if (!isOpen && size > left) throw new Error(`cannot be decoded to its end: ${size} bytes of samples are promised by the header, ${left} are there. ${CUT_OFF}`);
      if (!isOpen) checkRest(view, start + size + size % 2);
      return { ...format, start, frames: Math.floor((isOpen ? left : size) / format.frameBytes) };
    }
    at = start + size + size % 2;
  }
  throw new Error('has no samples in its header. It is likely damaged: copy or download it again.');
}

// ITU-T G.711.
function muLaw(code) {
  const bits = ~code & 0xff;
  const size = (((bits & 15) << 3) + 132 << ((bits & 0x70) >> 4)) - 132;
  return (bits & 0x80 ? -size : size) / 32768;
}

function aLaw(code) {
  const bits = code ^ 0x55;
  const segment = (bits & 0x70) >> 4;
  let size = ((bits & 15) << 4) + 8;
  if (segment) size = size + 256 << segment - 1;
  return (bits & 0x80 ? size : -size) / 32768;
}

// What reads a sample at a position; null where this format is left to the browser.
function sampleReader(view, { code, bits }) {
  const readers = {
    [`${PCM} 8`]: (at) => (view.getUint8(at) - 128) / 128,
    [`${PCM} 16`]: (at) => view.getInt16(at, true) / 32768,
    [`${PCM} 24`]: (at) => (view.getUint16(at, true) + view.getInt8(at + 2) * 65536) / 8388608,
    [`${PCM} 32`]: (at) => view.getInt32(at, true) / 2147483648,
    [`${FLOAT} 32`]: (at) => view.getFloat32(at, true),
    [`${FLOAT} 64`]: (at) => view.getFloat64(at, true),
    [`${A_LAW} 8`]: (at) => aLaw(view.getUint8(at)),
    [`${MU_LAW} 8`]: (at) => muLaw(view.getUint8(at)),
  };
  return readers[`${code} ${bits}`] || null;
}

// The mean over the channels, in the precision of float32: `channelsOf(frame)` are functions of a frame.
function average(frames, readers) {
  const mono = new Float32Array(frames);
  for (let i = 0; i < frames; i++) {
    let sum = 0;
    for (const read of readers) {
      const value = Math.fround(read(i));
      // Of NaN a comparison is false.
      if (!(Math.abs(value) <= LARGEST)) throw new Error('holds samples that cannot be of a recording: not finite, or beyond 32,768 times full scale. The program that wrote it likely divided by zero or did not scale them.');
      sum = Math.fround(sum + value);
    }
    mono[i] = sum / readers.length;
  }
  return mono;
}

// {samples, rate} of a WAV file, mono at its own rate; null where its format is left to the browser.
function readWav(buffer) {
  const view = new DataView(buffer);
  const header = readHeader(view);
  const read = sampleReader(view, header);
  const step = header.frameBytes / header.channels;
  if (!read || step * 8 !== header.bits) return null;
  const readers = Array.from({ length: header.channels }, (_, channel) => {
    const first = header.start + channel * step;
    return (frame) => read(first + frame * header.frameBytes);
  });
  return { samples: average(header.frames, readers), rate: header.rate };
}
