// The recording over time: its waveform above the scores of its windows. Both are zoomed together and follow the player.
// Axes, classes and steps of ticks are those of the report's plots (asdf.tables.panels, plots.html).
const player = byId('player');
const canvas = byId('picture');
const TIME_STEPS_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
// Shorter views would show a waveform of few points. Longer ones have no marks, which would merge into a thick line.
const SHORTEST_S = 10;
const MOST_MARKS = 60;
let shown = null;
// What is seen of it, from and to, in seconds.
let view = [0, 0];
let playUntil = Infinity;
let showNow = () => {};

function multiples(step, low, high) {
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= Math.floor(high / step + 1e-9); i++) ticks.push(Number((i * step).toPrecision(10)));
  return ticks;
}

function niceTicks(low, high, about) {
  const rough = (high - low) / about || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  return multiples(power * [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9)), low, high);
}

const timeTicks = (low, high, most) => multiples(TIME_STEPS_S.find((step) => (high - low) / step <= most) || (high - low) / most, low, high);
const tickText = (value) => String(Number(value.toPrecision(6))).replace('-', '−');
const tickClock = (seconds) => (seconds < 10 ? `0:0${Number(seconds.toFixed(1))}` : clock(Math.round(seconds)));

// x, y: {low, high, ticks, text, label}; elements in `inside` are cut off at the frame, which begins at `left`.
function frame(width, height, left, x, y, description) {
  const right = width - 20, top = 10, bottom = height - 42, area = { x: left, y: top, width: right - left, height: bottom - top };
  const X = (value) => left + (value - x.low) / (x.high - x.low || 1) * area.width;
  const Y = (value) => bottom - (value - y.low) / (y.high - y.low || 1) * area.height;
  const inside = svg('svg', { ...area, viewBox: `${left} ${top} ${area.width} ${area.height}` });
  const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': description },
    ...x.ticks.flatMap((tick) => [svg('path', { class: 'grid', d: `M${X(tick)},${top}V${bottom}` }),
      svg('text', { x: X(tick), y: bottom + 16, 'text-anchor': 'middle', class: 'soft' }, x.text(tick))]),
    ...y.ticks.flatMap((tick) => [svg('path', { class: 'grid', d: `M${left},${Y(tick)}H${right}` }),
      svg('text', { x: left - 6, y: Y(tick) + 4, 'text-anchor': 'end', class: 'soft' }, y.text(tick))]),
    inside, svg('rect', { class: 'frame', ...area }),
    svg('text', { x: (left + right) / 2, y: height - 6, 'text-anchor': 'middle' }, x.label),
    svg('text', { transform: `translate(12,${(top + bottom) / 2})rotate(-90)`, 'text-anchor': 'middle' }, y.label));
  return { root, inside, X, Y, top, bottom, now: svg('path', { class: 'now', 'aria-hidden': 'true' }) };
}

const polygon = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join('L')}`;

function drawWave({ outline: { low, high }, seconds }, { inside, X, Y }) {
  // What is seen and one more at either side.
  const at = (time) => time / seconds * low.length, first = Math.max(0, Math.floor(at(view[0])) - 1);
  const points = (values) => values.slice(first, Math.ceil(at(view[1])) + 1).map((value, i) => [X((first + i + 0.5) * seconds / low.length), Y(value)]);
  inside.append(svg('path', { class: 'area sound', d: `${polygon([...points(high), ...points(low).reverse()])}Z` }));
}

function drawScores({ windows, threshold }, { inside, X, Y }) {
  const middle = ({ start_s: start, end_s: end, score }) => [X((start + end) / 2), Y(score)], [first, last] = [windows[0], windows.at(-1)];
  const seen = windows.filter(({ start_s: start, end_s: end }) => end > view[0] && start < view[1]);
  // The first and the last window reach to the ends.
  inside.append(svg('path', { class: 'line c0', d: polygon([[X(first.start_s), Y(first.score)], ...windows.map(middle), [X(last.end_s), Y(last.score)]]) }));
  if (threshold !== null) inside.append(svg('path', { class: 'threshold', d: `M${X(view[0])},${Y(threshold)}H${X(view[1])}` }));
  if (seen.length > MOST_MARKS) return;
  for (const window of seen) {
    const [x, y] = middle(window), words = `${number(window.score)}, ${tickClock(window.start_s)} to ${tickClock(window.end_s)}`;
    inside.append(svg('path', { class: 'line c0 interval', d: `M${X(window.start_s)},${y}H${X(window.end_s)}` }),
      svg('circle', { class: 'marker c0', cx: x, cy: y, r: 4.5 }, svg('title', {}, words)));
  }
}

// Of what was not searched nothing is known of parts, and nothing is said.
function describeScores({ windows, parts, searched, verdict }) {
  const scores = windows.map(({ score }) => score);
  const range = `Score over time: from ${number(Math.min(...scores))} to ${number(Math.max(...scores))}`;
  return searched ? `${range}; ${partsWords(parts.length, verdict)}` : range;
}

function draw() {
  if (!shown) return;
  const { seconds, outline, windows, threshold, parts, kind } = shown, [low, high] = view;
  const width = Math.max(260, Math.floor(canvas.clientWidth || 640));
  const values = windows.map(({ score }) => score).concat(threshold === null ? [] : [threshold]);
  const [least, most] = [Math.min(...values), Math.max(...values)], margin = Math.max(0.05 * (most - least), 0.05);
  const peak = Math.max(0.01, ...outline.high, ...outline.low.map((value) => -value));
  const x = { low, high, ticks: timeTicks(low, high, Math.min(8, width / 60)), text: tickClock, label: '' };
  const y = { low: least - margin, high: most + margin, ticks: niceTicks(least - margin, most + margin, 5), text: tickText, label: kind === 'llr' ? 'LLR' : 'score' };
  const left = Math.round(32 + 6.6 * Math.max(...y.ticks.map((tick) => tickText(tick).length)));
  const wave = frame(width, 140, left, x, { low: -peak, high: peak, ticks: [0], text: tickText, label: 'sound' }, `Waveform of ${seconds.toFixed(1)} seconds`);
  const scores = frame(width, 220, left, { ...x, label: 'minutes:seconds' }, y, describeScores(shown));
  drawWave(shown, wave);
  for (const { inside, X, top, bottom } of [wave, scores]) {
    inside.append(...parts.map(({ start_s: start, end_s: end }) => svg('rect', { class: 'area part', x: X(start), y: top, width: Math.max(2, X(end) - X(start)), height: bottom - top })));
  }
  drawScores(shown, scores);
  // A line where the player is.
  [wave, scores].forEach(({ inside, now }) => inside.append(now));
  canvas.replaceChildren(wave.root, scores.root);
  showNow = () => [wave, scores].forEach(({ now, X, top, bottom }) => now.setAttribute('d', `M${X(player.currentTime)},${top}V${bottom}`));
  showNow();
  byId('seen').textContent = `${clock(low)} to ${clock(high)} of ${clock(seconds)}`;
  byId('zoom-in').disabled = high - low <= Math.min(SHORTEST_S, seconds);
  byId('zoom-out').disabled = byId('zoom-whole').disabled = high - low >= seconds;
}

// Shows so much of the recording, and no more than there is.
function see(from, to) {
  const span = Math.min(shown.seconds, Math.max(to - from, SHORTEST_S)), start = (from + to - span) / 2;
  view = [0, span].map((end) => end + Math.max(0, Math.min(start, shown.seconds - span)));
  draw();
}

const isSeen = (time) => time >= view[0] && time <= view[1];
const move = (share) => see(...view.map((end) => end + share * (view[1] - view[0])));

// Around a moment, which stays in its place; by itself that of the player, where it is seen.
function zoom(factor, at = isSeen(player.currentTime) ? player.currentTime : (view[0] + view[1]) / 2) {
  const span = Math.min(shown.seconds, Math.max(SHORTEST_S, factor * (view[1] - view[0])));
  const from = at - (at - view[0]) / (view[1] - view[0]) * span;
  see(from, from + span);
}

// The moment below a pointer, from the frame of the picture.
function momentAt(x) {
  const box = canvas.querySelector('.frame').getBoundingClientRect();
  return view[0] + Math.max(0, Math.min(1, (x - box.left) / box.width)) * (view[1] - view[0]);
}

// Dragged it moves, with two fingers it is zoomed, and a click plays from there.
const pointers = new Map();
canvas.addEventListener('pointerdown', (event) => {
  pointers.set(event.pointerId, { x: event.clientX, moved: 0 });
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener('pointermove', (event) => {
  const pointer = pointers.get(event.pointerId), apart = () => Math.abs([...pointers.values()].reduce((sum, { x }) => x - sum, 0)) + 1;
  if (!pointer) return;
  const before = apart(), moment = momentAt(pointer.x);
  pointer.moved += Math.abs(event.clientX - pointer.x);
  pointer.x = event.clientX;
  const moved = moment - momentAt(pointer.x);
  if (pointers.size > 1) zoom(before / apart(), momentAt([...pointers.values()].reduce((sum, { x }) => sum + x / pointers.size, 0)));
  else if (pointer.moved > 4) see(view[0] + moved, view[1] + moved);
});
for (const kind of ['pointerup', 'pointercancel']) {
  canvas.addEventListener(kind, (event) => {
    if (kind === 'pointerup' && pointers.size === 1 && pointers.get(event.pointerId)?.moved <= 4) play(momentAt(event.clientX));
    pointers.delete(event.pointerId);
  });
}
canvas.addEventListener('wheel', (event) => {
  const { deltaX, deltaY, ctrlKey, metaKey, shiftKey } = event;
  // Without a key the wheel scrolls the page.
  if (ctrlKey || metaKey) zoom(2 ** (deltaY / 200), momentAt(event.clientX));
  else if (shiftKey || Math.abs(deltaX) > Math.abs(deltaY)) move((deltaX || deltaY) / 800);
  else return;
  event.preventDefault();
}, { passive: false });
const KEYS = { '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: () => see(0, shown.seconds), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2),
  Home: () => move(-1e9), End: () => move(1e9), ' ': () => (player.paused ? player.play() : player.pause()) };
canvas.addEventListener('keydown', (event) => {
  if (!(event.key in KEYS) || event.ctrlKey || event.metaKey || event.altKey) return;
  KEYS[event.key]();
  event.preventDefault();
});
for (const [id, key] of Object.entries({ 'zoom-in': '+', 'zoom-out': '-', 'zoom-whole': 0 })) byId(id).addEventListener('click', () => KEYS[key]());
let width = 0;
new ResizeObserver(([{ contentRect }]) => {
  if (Math.abs(contentRect.width - width) < 1) return;
  width = contentRect.width;
  draw();
}).observe(canvas);

// Whoever looks elsewhere is not fetched back: the picture follows where the player leaves what is seen.
let heard = 0;
player.addEventListener('timeupdate', () => {
  const time = player.currentTime, leaves = isSeen(heard) && !isSeen(time);
  heard = time;
  if (time >= playUntil) {
    playUntil = Infinity;
    player.pause();
  }
  if (leaves) see(time, time + view[1] - view[0]);
  else showNow();
});
player.addEventListener('error', () => showPlayable(false));

function showPlayable(playable) {
  player.hidden = !playable;
  byId('unplayable').hidden = playable;
  document.querySelectorAll('#parts button').forEach((button) => { button.disabled = !playable; });
}

function load(file) {
  if (player.src) URL.revokeObjectURL(player.src);
  playUntil = Infinity;
  player.src = URL.createObjectURL(file);
  showPlayable(true);
}

function play(from, until = Infinity) {
  player.currentTime = from;
  playUntil = until;
  player.play().catch(() => {});
}

// A part with as much of the recording before and after it.
function playPart(from, until) {
  see(2 * from - until, 2 * until - from);
  play(from, until);
}
