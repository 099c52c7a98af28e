// Histograms of scores: a plot per system, both classes in each.
function steps(counts, low, high, X, Y, closed) {
  const total = counts.reduce((sum, count) => sum + count, 0) || 1;
  const wide = (high - low) / counts.length;
  let d = closed ? `M${X(low)},${Y(0)}` : '';
  counts.forEach((count, i) => {
    const y = Y(100 * count / total).toFixed(1);
    d += `${d ? 'L' : 'M'}${X(low + i * wide).toFixed(1)},${y}H${X(low + (i + 1) * wide).toFixed(1)}`;
  });
  return closed ? `${d}V${Y(0)}Z` : d;
}

const peak = (counts) => 100 * Math.max(...counts) / (counts.reduce((sum, count) => sum + count, 0) || 1);

// range: the scores that all histograms side by side show.
function drawHistogram(set, one, attack, width, range) {
  const { low, high, bona_fide: bonaFide, spoof } = one.histogram;
  const spoofs = spoof[attack] || spoof[''];
  const top = Math.max(peak(bonaFide), peak(spoofs)) * 1.06;
  const of = attack ? `spoofs of ${attack}` : 'spoofs';
  const { root, X, Y } = frame({
    width, height: Math.round(Math.min(width * 0.62, 340)), title: labelOf(one.system),
    x: { ...range, ticks: niceTicks(range.low, range.high, Math.max(3, width / 90)), label: 'Score (higher: more bona fide)' },
    y: { low: 0, high: top, ticks: niceTicks(0, top, 4), label: 'Share (%)' },
    description: `Scores of ${one.system} on ${set}, bona fide and ${of}, between ${low} and ${high}; threshold of the EER `
      + `${one.threshold.toPrecision(4)}, EER ${(one.eer[attack] ?? one.eer['']).toFixed(2)} %.`,
  });
  [bonaFide, spoofs].forEach((counts, index) => root.append(
    svg('path', { class: `area c${index}`, d: steps(counts, low, high, X, Y, true) }),
    svg('path', { class: `line c${index}`, 'stroke-dasharray': index ? '6 3' : null, d: steps(counts, low, high, X, Y, false) })));
  const at = X(one.threshold), left = at > width * 0.7;
  root.append(svg('path', { class: 'threshold', d: `M${at},26V${Y(0)}` }, svg('title', {}, 'threshold of the EER')),
    svg('text', { x: at + (left ? -4 : 4), y: 38, 'text-anchor': left ? 'end' : 'start', class: 'soft halo' }, inWords(one.threshold)));
  root.classList.add('histogram');
  return root;
}

function startHistograms(figure) {
  const set = figure.dataset.set, measured = data.sets[set], attacks = attackNames(measured);
  const canvas = figure.querySelector('.canvas');
  let attack = '';
  canvas.classList.add('many');
  const sample = (index, name) => el('label', {}, svg('svg', { viewBox: '0 0 36 14', 'aria-hidden': 'true' },
    svg('path', { class: `line c${index}`, d: 'M0,7H36', 'stroke-dasharray': index ? '6 3' : null })), name);
  const controls = el('div', { class: 'controls' });
  if (attacks.length) {
    controls.append(choice('Spoofs of', [['', 'all attacks'], ...attacks.map((name) => [name, name])], '', (value) => {
      attack = value;
      redraw();
    }));
  }
  canvas.before(controls);
  canvas.after(el('div', { class: 'legend' }, sample(0, 'bona fide'), sample(1, 'spoof')));
  drawnIn(canvas, (width) => {
    const shown = measured.filter((one) => !hidden.has(one.system));
    const each = inColumns(canvas, width, shown.length > 3 ? 230 : 280, shown.length);
    const range = { low: Math.min(...shown.map((one) => one.histogram.low)), high: Math.max(...shown.map((one) => one.histogram.high)) };
    return shown.map((one) => drawHistogram(set, one, attack, each, range));
  });
}
