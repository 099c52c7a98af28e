// In the browser's audio thread: passes the samples of the microphone on.
class Recorder extends AudioWorkletProcessor {
  process([channels]) {
    if (channels.length) this.port.postMessage(channels[0].slice());
    return true;
  }
}
registerProcessor('recorder', Recorder);
