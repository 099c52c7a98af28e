// A frame with two axes, and the scales that bring values into it: live scores are drawn where they arrive.
// Drawings are redrawn when the width of their canvas changes.
function niceTicks(low, high, about) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(Number((i * step).toPrecision(10)));
  return ticks;
}

// The ticks of an axis in one way of writing.
function tickTexts(ticks) {
  const small = Math.max(...ticks.map(Math.abs)) < 0.01;
  return ticks.map((tick) => (small && tick ? tick.toExponential() : String(tick)).replaceAll('-', '−'));
}

let frames = 0;

// x, y: {low, high, ticks, label}. Elements in `inside` are cut off at the frame. `left` is where the frame begins, to
// stand under another.
function frame({ width, height, x, y, title, description, left: wanted }) {
  const [xTexts, yTexts] = [tickTexts(x.ticks), tickTexts(y.ticks)];
  const left = wanted ?? 32 + 6.6 * Math.max(...yTexts.map((text) => text.length)), right = 14, top = title ? 26 : 10, bottom = 42;
  const scale = ({ low, high }, from, to) => (value) => from + (value - low) / (high - low || 1) * (to - from);
  const X = scale(x, left, width - right), Y = scale(y, height - bottom, top);
  const root = svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': description });
  let free = 0;
  x.ticks.forEach((tick, i) => {
    const at = X(tick), half = 3.4 * xTexts[i].length + 2;
    root.append(svg('path', { class: 'grid', d: `M${at},${top}V${height - bottom}` }));
    if (at - half < free) return;
    free = at + half;
    root.append(svg('text', { x: at, y: height - bottom + 16, 'text-anchor': 'middle', class: 'soft' }, xTexts[i]));
  });
  y.ticks.forEach((tick, i) => root.append(svg('path', { class: 'grid', d: `M${left},${Y(tick)}H${width - right}` }),
    svg('text', { x: left - 6, y: Y(tick) + 4, 'text-anchor': 'end', class: 'soft' }, yTexts[i])));
  const id = `clip-${frames++}`, area = { x: left, y: top, width: width - right - left, height: height - bottom - top };
  const inside = svg('g', { 'clip-path': `url(#${id})` });
  root.append(svg('clipPath', { id }, svg('rect', area)), inside, svg('rect', { class: 'frame', ...area }),
    svg('text', { x: (left + width - right) / 2, y: height - 6, 'text-anchor': 'middle' }, x.label),
    svg('text', { transform: `translate(12,${(top + height - bottom) / 2})rotate(-90)`, 'text-anchor': 'middle' }, y.label));
  if (title) root.append(svg('text', { x: left, y: 15, class: 'title' }, title));
  return { root, inside, area, X, Y };
}

// [x, y, x, y, ...] as a path.
function path(points, X, Y) {
  let d = '';
  for (let i = 0; i < points.length; i += 2) d += `${i ? 'L' : 'M'}${X(points[i]).toFixed(1)},${Y(points[i + 1]).toFixed(1)}`;
  return d;
}

const drawings = [];
const redraw = () => drawings.forEach((draw) => draw());

function drawnIn(canvas, draw) {
  let width = 0;
  const again = () => canvas.replaceChildren(...draw(Math.max(260, Math.floor(width || canvas.clientWidth || 640))));
  drawings.push(again);
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - width) < 1 || !entry.contentRect.width) return;
    width = entry.contentRect.width;
    again();
  }).observe(canvas);
  again();
}
