// What the numbers mean, in words.
const twoDigits = (value) => String(value).padStart(2, '0');

function clock(seconds) {
  const whole = Math.floor(seconds);
  return `${Math.floor(whole / 60)}:${twoDigits(whole % 60)}`;
}

// Parts may be shorter than a second. Tenths first, or 59.96 seconds would be 0:60.0.
function clockWithTenths(seconds) {
  const tenths = Math.round(seconds * 10);
  return `${Math.floor(tenths / 600)}:${twoDigits(Math.floor(tenths / 10) % 60)}.${tenths % 10}`;
}

const leftWords = (seconds) => (seconds < 90 ? `About ${Math.ceil(seconds)} s left.` : `About ${Math.round(seconds / 60)} min left.`);

const number = (value) => String(Number(value.toPrecision(3))).replace('-', '−');

const dateWords = (date) => `${new Date(date).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

const PARTS_NAMED = 3;

const timesWords = ({ start_s: start, end_s: end, score }) => `${clock(start)} to ${clock(end)}, lowest score ${number(score)}`;

// The lowest score first: it matters most.
const worstFirst = (parts) => [...parts].sort((one, other) => (one.unbounded_llr ?? one.score) - (other.unbounded_llr ?? other.score));

function partTimes(parts) {
  const more = parts.length > PARTS_NAMED ? ` and ${parts.length - PARTS_NAMED} more` : '';
  return worstFirst(parts).slice(0, PARTS_NAMED).map(timesWords).join('; ') + more;
}

// "Part of this sounds spoofed (0:12 to 0:24, lowest score −3.36)".
function mixedWords(parts) {
  const times = partTimes(parts);
  return parts.length === 1 ? `Part of this sounds spoofed (${times})` : `Parts of this sound spoofed (${times})`;
}

// What the columns of a score say of it; answers that are not for a page have none of this.
const shownOf = ({ shown = {} }) => ({ facts: {}, sentences: [], doubt: [], is_clear: false, ...shown });

function verdictWords(recording, threshold) {
  const words = soundWords(recording, threshold);
  // No colour of a verdict above a number that does not stand for the recording.
  const [short, sentence] = shownOf(recording).doubt;
  if (!short || !recording.verdict) return words;
  const kind = words.kind === 'undecided' ? words.kind : 'mixed';
  return { kind, short: `${words.short}, ${short}`, text: `${words.text.replace(/\.$/, '')}. ${sentence}` };
}

// "channel 0: spoof, channel 1: bona fide".
const channelWords = (channels) => channels.map(({ channel, track, verdict }) => `${track ? `track ${track}` : `channel ${channel}`}: ${verdict || 'not judged'}`).join(', ');

function undecidedWords(recording) {
  const { remark, parts = [] } = recording;
  const little = /speech in only \d+ of \d+ windows/.exec(remark || '');
  if (little) return ['undecided: too little speech', `The detector cannot tell: there is too little speech (${little[0]})`];
  const [part, lower] = parts.length === 1 ? ['a part', 'scores lower'] : ['parts', 'score lower'];
  if (parts.length && shownOf(recording).is_clear) return ['undecided', `The detector cannot tell: ${part} of this ${lower}, but not clearly (${partTimes(parts)})`];
  return ['undecided', 'The detector cannot tell: it gives such a score to genuine and to spoofed speech about equally often.'];
}

function soundWords(recording, threshold) {
  const { verdict, remark, parts, channels } = recording;
  const kind = verdict === 'undecided' ? verdict : 'mixed';
  if (channels && verdict) return { kind, short: 'channels differ', text: `Its channels or sound tracks are not the same sound (${channelWords(channels)})` };
  if (verdict === 'spoof') return { kind: 'spoof', short: 'spoofed', text: 'This sounds spoofed: like a voice that a machine generated or altered' };
  if (verdict === 'mixed') return { kind: 'mixed', short: parts.length === 1 ? 'part sounds spoofed' : 'parts sound spoofed', text: mixedWords(parts) };
  if (verdict === 'undecided') {
    const [short, text] = undecidedWords(recording);
    return { kind, short, text };
  }
  if (verdict === 'bona fide') return { kind: 'genuine', short: 'genuine', text: 'This sounds genuine: like a person speaking' };
  if (threshold !== null && remark) return { kind: '', short: 'not judged', text: notJudgedWords(remark) };
  return { kind: '', short: 'no verdict', text: 'A score without a verdict' };
}

// The remark of what is not judged begins so, and says why.
function notJudgedWords(remark) {
  if (remark.includes('no speech')) return 'Not judged: no speech was found';
  if (remark.includes('silence')) return 'Not judged: this is silence';
  return 'Not judged: there is too little speech';
}

function likelihoodWords(llr) {
  const ratio = Math.exp(Math.abs(llr));
  const times = ratio > 1000 ? 'more than 1,000' : `about ${number(ratio)}`;
  const [more, less] = llr > 0 ? ['genuine', 'spoofed'] : ['spoofed', 'genuine'];
  return `Among equally many genuine and spoofed recordings like its calibration set, a score like this is ${times} times as common in ${more} speech as in ${less} speech.`;
}

const WHOLE_WORDS = 'The score of the whole recording is that of genuine speech. ';

function scoreWords(recording, { kind, threshold }) {
  const { score, verdict, channels } = recording;
  const { doubt, is_clear: isClear } = shownOf(recording);
  if (channels) return `The score, ${number(score)}, is the lowest of its channels or sound tracks.`;
  // Nothing that was not judged is likelier to be anything.
  if (threshold !== null && !verdict) return `The score is ${number(score)}, but means nothing for this recording.`;
  if (doubt.length) return `The score is ${number(score)}. How often recordings like this one get such a score is not known, so it is not a likelihood ratio for this recording.`;
  if (verdict === 'undecided') return `The score is ${number(score)}, and supports no verdict. What else you know about the recording counts.`;
  // Of a whole that says nothing, no ratio is stated next to what sounds spoofed.
  if (verdict === 'mixed' && kind === 'llr' && !isClear) return `The score of the whole recording, ${number(score)}, says nothing about what sounds spoofed.`;
  if (verdict === 'mixed') return `${WHOLE_WORDS}${wholeWords(score, kind, threshold)}`;
  return wholeWords(score, kind, threshold);
}

function wholeWords(score, kind, threshold) {
  if (kind === 'llr') return `${likelihoodWords(score)} This considers the sound alone. What else you know about the recording counts as well.`;
  const limit = threshold === null
    ? 'This detector has no threshold, so it gives no verdict.'
    : `The detector calls a recording genuine when its score is at least ${number(threshold)}.`;
  return `The score is ${number(score)}. ${limit} A higher score means that the recording sounds more genuine to this detector. Scores of different detectors cannot be compared.`;
}

function partsWords(parts, verdict) {
  if (!parts) return 'no part sounds spoofed';
  if (verdict === 'undecided') return `parts with lower scores: ${parts}`;
  return parts === 1 ? '1 part sounds spoofed' : `${parts} parts sound spoofed`;
}

// Each window that is compared with a threshold is one more chance of a false alarm.
function chanceWords({ windows, false_alarms: alarms }) {
  if (!alarms) return `${windows} of them were compared with the detector's threshold: the more there are, the likelier one falls below it by chance, in genuine speech too.`;
  const rate = alarms.rate === null ? '' : `${number(100 * alarms.rate)} %, and `;
  return `${windows} of them were compared with a threshold. Of genuine recordings as long, ${rate}at most ${number(100 * alarms.at_most)} %, have a part below it.`;
}

// Of a conversation: how many of its speakers sound how.
function speakersWords(speakers) {
  const count = (verdicts) => speakers.filter(({ verdict }) => verdicts.includes(verdict)).length;
  const whole = `${speakers.length} ${speakers.length === 1 ? 'speaker' : 'speakers'}`;
  const counted = [[count(['spoof']), 'spoofed'], [count(['mixed']), 'spoofed in part'], [count(['bona fide']), 'genuine'], [count(['undecided']), 'undecided'], [count([null]), 'not judged']];
  return `${whole}: ${counted.filter(([many]) => many).map(([many, words]) => `${many} ${words}`).join(', ')}`;
}
