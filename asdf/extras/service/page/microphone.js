// The microphone, as a WAV file: samples as they are, since a lossy format would change what the detector hears.

function writeWav(parts, rate) {
  const count = parts.reduce((sum, part) => sum + part.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const text = (at, letters) => [...letters].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, 'RIFF');
  view.setUint32(4, 36 + 2 * count, true);
  text(8, 'WAVEfmt ');
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  text(36, 'data');
  view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const part of parts) {
    for (const sample of part) {
      view.setInt16(at, Math.max(-1, Math.min(1, sample)) * 32767, true);
      at += 2;
    }
  }
  return new Blob([view], { type: 'audio/wav' });
}

function microphoneProblem(error) {
  if (!window.isSecureContext) return 'Browsers allow the microphone only on pages with https or from this machine. Choose a file instead.';
  if (error.name === 'NotAllowedError') return 'The browser was not allowed to use the microphone. Allow it in the settings of this page, or choose a file.';
  if (error.name === 'NotFoundError') return 'There is no microphone. Choose a file instead.';
  return `The microphone cannot be used (${error.message}). Choose a file instead.`;
}

// Calls `heard` with the seconds so far and the level of each part; returns a function that stops and returns the file.
async function startMicrophone(heard) {
  if (!navigator.mediaDevices) throw new Error('no microphone for this page');
  // What makes a call sound better removes what the detector listens for.
  const raw = { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 };
  const stream = await navigator.mediaDevices.getUserMedia({ audio: raw });
  const context = new AudioContext();
  const close = async () => {
    stream.getTracks().forEach((track) => track.stop());
    await context.close();
  };
  const parts = [];
  let samples = 0;
  try {
    await context.audioWorklet.addModule('page/recorder.js');
    const recorder = new AudioWorkletNode(context, 'recorder', { numberOfOutputs: 0 });
    recorder.port.onmessage = ({ data: part }) => {
      parts.push(part);
      samples += part.length;
      heard(samples / context.sampleRate, part.reduce((peak, value) => Math.max(peak, Math.abs(value)), 0));
    };
    context.createMediaStreamSource(stream).connect(recorder);
    // Some browsers begin without it only in the click itself.
    await context.resume();
  } catch (error) {
    await close();
    throw error;
  }
  return async () => {
    const rate = context.sampleRate;
    await close();
    return writeWav(parts, rate);
  };
}
