// The waveform with the score over time below it, both on one axis of seconds.

function wavePath({ low, high }, seconds, X, Y) {
  const at = (i) => X((i + 0.5) * seconds / low.length).toFixed(1);
  const above = high.map((value, i) => `${at(i)},${Y(value).toFixed(1)}`);
  const below = low.map((value, i) => `${at(i)},${Y(value).toFixed(1)}`).reverse();
  return `M${above.join('L')}L${below.join('L')}Z`;
}

function scorePoints(windows) {
  const points = windows.flatMap(({ start_s: start, end_s: end, score }) => [(start + end) / 2, score]);
  // The first and the last window reach to the ends.
  return [windows[0].start_s, windows[0].score, ...points, windows.at(-1).end_s, windows.at(-1).score];
}

function markParts({ inside, area, X }, parts) {
  for (const { start_s: start, end_s: end } of parts) {
    inside.append(svg('rect', { class: 'marked', x: X(start), y: area.y, width: Math.max(2, X(end) - X(start)), height: area.height }));
  }
}

// Of what was not searched nothing is known of parts, and nothing is said.
function describeScores({ windows, parts, searched, verdict }) {
  const scores = windows.map(({ score }) => score);
  const range = `Score over time: from ${number(Math.min(...scores))} to ${number(Math.max(...scores))}`;
  return searched ? `${range}; ${partsWords(parts.length, verdict)}` : range;
}

function drawPicture(width, picture) {
  const { seconds, outline, windows, threshold, parts, kind } = picture;
  const x = { low: 0, high: seconds, ticks: niceTicks(0, seconds, width / 90), label: 'seconds' };
  const values = windows.map(({ score }) => score).concat(threshold === null ? [] : [threshold]);
  const margin = Math.max(0.05 * (Math.max(...values) - Math.min(...values)), 0.05);
  const [low, high] = [Math.min(...values) - margin, Math.max(...values) + margin];
  const scores = frame({ width, height: 190, x, y: { low, high, ticks: niceTicks(low, high, 4), label: kind === 'llr' ? 'LLR' : 'score' },
    description: describeScores(picture) });
  const peak = Math.max(0.01, ...outline.high, ...outline.low.map((value) => -value));
  const wave = frame({ width, height: 150, x: { ...x, label: '' }, y: { low: -peak, high: peak, ticks: [0], label: 'sound' }, left: scores.area.x,
    description: `Waveform of ${seconds.toFixed(1)} seconds` });
  wave.inside.append(svg('path', { class: 'wave', d: wavePath(outline, seconds, wave.X, wave.Y) }));
  [wave, scores].forEach((drawing) => markParts(drawing, parts));
  scores.inside.append(svg('path', { class: 'line c0', d: path(scorePoints(windows), scores.X, scores.Y) }));
  if (threshold !== null) scores.inside.append(svg('path', { class: 'threshold', d: `M${scores.area.x},${scores.Y(threshold)}h${scores.area.width}` }));
  return [wave, scores].map((drawing) => playedFrom(drawing, seconds));
}

// A line where the player is; a click plays from there.
function playedFrom({ root, area, X }, seconds) {
  const now = svg('path', { class: 'now', 'aria-hidden': 'true' });
  root.append(now);
  const show = () => now.setAttribute('d', `M${X(Math.min(player.currentTime, seconds))},${area.y}v${area.height}`);
  player.addEventListener('timeupdate', () => { if (root.isConnected) show(); });
  root.addEventListener('click', (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(root.getScreenCTM().inverse());
    play(Math.max(0, Math.min(1, (at.x - area.x) / area.width)) * seconds);
  });
  return root;
}
