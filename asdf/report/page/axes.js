// A frame with two axes, and the scales that bring values into it.
const A = [-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269, -30.66479806614716, 2.506628277459239];
const B = [-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572, 1];
const C = [-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734, 4.374664141464968, 2.938163982698783];
const D = [0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416, 1];
const horner = (coefficients, x) => coefficients.reduce((sum, coefficient) => sum * x + coefficient, 0);

// The normal deviate of a rate in % (P. J. Acklam's approximation, relative error below 1.2e-9).
function probit(percent) {
  const p = Math.max(percent / 100, 1e-9);
  if (p > 0.5) return -probit(100 - percent);
  if (p < 0.02425) {
    const q = Math.sqrt(-2 * Math.log(p));
    return horner(C, q) / horner(D, q);
  }
  const q = p - 0.5;
  return q * horner(A, q * q) / horner(B, q * q);
}

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

// x, y: {low, high, ticks, label, by}, where `by` maps a value to its position (probit, or itself). Elements in `inside`
// are cut off at the frame; `held` moves a value of x onto it. `left` is where the frame begins, to stand under another.
function frame({ width, height, x, y, title, description, left: wanted }) {
  const [xTexts, yTexts] = [tickTexts(x.ticks), tickTexts(y.ticks)];
  const left = wanted ?? 32 + 6.6 * Math.max(...yTexts.map((text) => text.length)), right = 14, top = title ? 26 : 10, bottom = 42;
  const same = (value) => value;
  const scale = ({ low, high, by = same }, from, to) => {
    const start = by(low), span = by(high) - start || 1;
    return (value) => from + (by(value) - start) / span * (to - from);
  };
  const held = (value) => Math.min(Math.max(value, x.low), x.high);
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
  return { root, inside, area, X, Y, held };
}

// [x, y, x, y, ...] as a path.
function path(points, X, Y) {
  let d = '';
  for (let i = 0; i < points.length; i += 2) d += `${i ? 'L' : 'M'}${X(points[i]).toFixed(1)},${Y(points[i + 1]).toFixed(1)}`;
  return d;
}
