// What the numbers mean, in words.
const twoDigits = (value) => String(value).padStart(2, '0');

function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${twoDigits(whole % 60)}`;
}

// Parts may be shorter than a second.
const clockWithTenths = (seconds) => `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(1).padStart(4, '0')}`;

const number = (value) => String(Number(value.toPrecision(3))).replace('-', '−');

function verdictWords({ verdict, remark }, threshold) {
  if (verdict === 'spoof') return { kind: 'spoof', text: 'This sounds spoofed: like a voice that a machine has made or changed' };
  if (verdict === 'bona fide') return { kind: 'genuine', text: 'This sounds genuine: like a person who speaks' };
  if (threshold !== null && remark) return { kind: '', text: 'No verdict: there is too little speech to judge' };
  return { kind: '', text: 'A score, and no verdict' };
}

function likelihoodWords(llr) {
  const ratio = Math.exp(Math.abs(llr));
  const times = ratio > 1000 ? 'more than 1,000' : `about ${number(ratio)}`;
  if (ratio < 1.5) return 'To the detector, genuine and spoofed speech would sound alike here.';
  const [more, less] = llr > 0 ? ['genuine', 'spoofed'] : ['spoofed', 'genuine'];
  return `To the detector it is ${times} times as likely to hear this from ${more} speech as from ${less} speech like that of its training.`;
}

function scoreWords({ score }, { kind, threshold }) {
  if (kind === 'llr') return `${likelihoodWords(score)} How likely a spoof was before you listened is for you to say.`;
  const meaning = 'The higher a score, the more genuine a recording sounds to this detector; scores of other detectors cannot be compared with it.';
  const limit = threshold === null
    ? 'This detector was not given a score from which on speech counts as genuine, so it gives no verdict.'
    : `It calls speech genuine from ${number(threshold)} on.`;
  return `The score is ${number(score)}. ${limit} ${meaning}`;
}
