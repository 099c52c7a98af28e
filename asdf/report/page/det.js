// DET curves: a line per system, or a line per attack of a single system.
const POOLED = 'all spoofs', EACH = 'each attack';

function attackNames(measured) {
  return [...new Set(measured.flatMap((one) => Object.keys(one.curves)))].filter((name) => name);
}

function detRange(curves) {
  const eers = curves.map((curve) => curve.eer);
  const low = eers.some((eer) => eer > 0 && eer < 0.2) ? 0.01 : 0.1;
  const high = eers.some((eer) => eer > 35) ? 95 : 40;
  const ticks = [...(low < 0.1 ? [0.01, 0.02, 0.05] : []), ...data.ticks, ...(high > 40 ? [60, 80, 90, 95] : [])];
  return { low: low * 0.8, high: high > 40 ? 97 : 47, ticks, by: probit };
}

function drawDet(set, curves, width) {
  const size = Math.min(width, 500);
  const range = detRange(curves);
  const words = curves.map((curve) => `${labelOf(curve.name)}: EER ${curve.eer.toFixed(2)} %`).join('; ');
  const plot = frame({
    width: size, height: size, x: { ...range, label: 'False alarm: spoof accepted (%)' },
    y: { ...range, label: 'Miss: bona fide rejected (%)' }, description: `DET curves on ${set}. ${words || 'None is shown.'}`,
  });
  const { root, inside, X, Y, held } = plot;
  root.append(svg('path', { class: 'diagonal', d: path([range.low, range.low, range.high, range.high], X, Y) }));
  for (const curve of curves) {
    const drawn = line(curve.index, path(curve.points, X, Y));
    drawn.setAttribute('data-curve', curve.name);
    if (curve.pooled) drawn.classList.add('pooled');
    inside.append(drawn);
  }
  for (const curve of curves) {
    const [falseAlarm, miss] = curve.at.map(held);
    root.append(marker(curve.index, X(falseAlarm), Y(miss), `${curve.name}: EER ${curve.eer.toFixed(2)} %`));
  }
  if (curves.length && curves.every((curve) => curve.eer === 0)) {
    root.append(svg('text', { x: size / 2 + 16, y: size / 2, 'text-anchor': 'middle', class: 'note' }, 'No error at the threshold of the EER'));
  }
  readOut(plot, curves.map(({ name, points, thresholds }) => ({ points, words: (i) => [labelOf(name),
    `miss ${inWords(points[2 * i + 1])} %, false alarm ${inWords(points[2 * i])} %`, `threshold ${inWords(thresholds[i])}`] })));
  root.classList.add('det');
  return root;
}

function startDet(figure) {
  const set = figure.dataset.set, measured = data.sets[set], attacks = attackNames(measured);
  const canvas = figure.querySelector('.canvas'), key = el('div');
  const alone = measured.length === 1;
  let shown = alone && attacks.length ? EACH : POOLED;
  const curves = () => {
    if (shown === EACH) {
      const [one] = measured;
      return ['', ...attacks].map((name, index) =>
        ({ name: name || POOLED, points: one.curves[name], thresholds: one.thresholds[name], eer: one.eer[name],
          at: one.eer_points[name], index, pooled: !name }));
    }
    const name = shown === POOLED ? '' : shown.slice(1);
    return measured.filter((one) => one.curves[name]).map((one) =>
      ({ name: one.system, points: one.curves[name], thresholds: one.thresholds[name], eer: one.eer[name],
        at: one.eer_points[name], index: data.systems.indexOf(one.system) }));
  };
  const renew = () => {
    const entries = curves();
    key.replaceChildren(...(entries.length > 1 ? [legend(shown === EACH ? 'Spoofs' : 'Systems', entries)] : []));
  };
  if (attacks.length) {
    // With a sign before it, the name of an attack is never that of one of our choices.
    const options = [[POOLED, POOLED], ...(alone ? [[EACH, EACH]] : []), ...attacks.map((name) => [`=${name}`, `only ${name}`])];
    canvas.before(el('div', { class: 'controls' }, choice('Curves of', options, shown, (value) => {
      shown = value;
      renew();
      redraw();
    })));
  }
  renew();
  canvas.after(key);
  drawnIn(canvas, (width) => [drawDet(set, curves().filter((curve) => !hidden.has(curve.name)), width)]);
}
