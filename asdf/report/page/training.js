// Loss, learning rate and EER by epoch, a line per run; what is of a validation set has marks.
const PANELS = [['loss', 'Loss'], ['rate', 'Learning rate'], ['eer', 'EER (%)']];

function drawPanel([kind, label], set, runs, width) {
  const ofTraining = kind === 'eer' ? [] : runs.map((run) => run[kind]);
  const onSet = kind === 'rate' ? [] : runs.map((run) => run[kind === 'eer' ? 'eer' : 'losses'][set] || []);
  const series = [...ofTraining, ...onSet];
  const runOf = (i) => runs[i % runs.length];
  const unit = (i) => (kind === 'eer' ? ' %' : i < ofTraining.length ? '' : ` on ${set}`);
  const all = series.flat(), xs = all.filter((_, i) => i % 2 === 0), ys = all.filter((_, i) => i % 2);
  if (!xs.length) return null;
  // Room behind the last epoch, so that its mark is whole.
  const last = xs.reduce((a, b) => Math.max(a, b)) * 1.04 || 1, top = ys.reduce((a, b) => Math.max(a, b), 0) * 1.05 || 1;
  const bottom = ys.reduce((a, b) => Math.min(a, b), 0) * 1.05;
  const isValidated = onSet.some((points) => points.length);
  const title = kind === 'eer' ? `EER on ${set}` : isValidated ? `${label} (marked: on ${set})` : label;
  const words = series.map((points, i) => [points, i]).filter(([points]) => points.length)
    .map(([points, i]) => `${runOf(i).name}: ${Number(points.at(-1).toPrecision(4))}${kind === 'eer' ? '' : unit(i)} at epoch ${Number(points.at(-2).toPrecision(4))}`);
  const plot = frame({
    width, height: Math.round(Math.min(Math.max(width * 0.68, 210), 300)), title,
    x: { low: 0, high: last, ticks: niceTicks(0, last, Math.max(3, width / 75)), label: 'Epoch' },
    y: { low: bottom, high: top, ticks: niceTicks(bottom, top, 5), label }, description: `${title} by epoch. ${words.join('; ')}`,
  });
  const { root, X, Y } = plot;
  const courses = [];
  series.forEach((points, i) => {
    if (!points.length) return;
    const run = runOf(i), drawn = line(run.index, path(points, X, Y));
    drawn.setAttribute('data-run', run.name);
    root.append(drawn);
    if (i < ofTraining.length) {
      if (kind !== 'loss' || !run.course.length) return;
      drawn.classList.add('noise');
      drawn.removeAttribute('stroke-dasharray');
      courses.push(line(run.index, path(run.course, X, Y)));
      return;
    }
    for (let p = 0; p < points.length; p += 2) {
      const shown = kind === 'eer' ? points[p + 1] : inWords(points[p + 1]);
      const mark = marker(run.index, X(points[p]), Y(points[p + 1]), `${run.name}, epoch ${points[p]}: ${shown}${unit(i)}`);
      if (run.chosen.includes(points[p])) mark.classList.add('chosen');
      root.append(mark);
    }
  });
  root.append(...courses);
  readOut(plot, series.map((points, i) => ({ points, words: (p) => [labelOf(runOf(i).name),
    `epoch ${inWords(points[2 * p])}: ${inWords(points[2 * p + 1])}${unit(i)}`] })));
  root.classList.add(kind);
  return root;
}

function startTraining(figure) {
  const canvas = figure.querySelector('.canvas');
  const sets = [...new Set(data.runs.flatMap((run) => [...Object.keys(run.eer), ...Object.keys(run.losses)]))];
  let set = sets[0];
  canvas.classList.add('many');
  if (sets.length > 1) {
    canvas.before(el('div', { class: 'controls' }, choice('Validation set', sets.map((name) => [name, name]), set, (value) => {
      set = value;
      redraw();
    })));
  }
  if (data.runs.length > 1) canvas.after(legend('Runs', data.runs.map(({ name }, index) => ({ name, index }))));
  drawnIn(canvas, (width) => {
    const runs = data.runs.map((run, index) => ({ ...run, index })).filter((run) => !hidden.has(run.name));
    const each = inColumns(canvas, width, 270, PANELS.length);
    return PANELS.map((panel) => drawPanel(panel, set, runs, each)).filter(Boolean);
  });
}
