// The nearest point of the lines to the pointer, in words, with hairlines to both axes.

// series: [{points: [x, y, x, y, ...], words: (point number) => text}], in the frame's own values.
function readOut({ root, area, X, Y, held }, series) {
  const candidates = series.flatMap(({ points, words }) => {
    const inFrame = [];
    for (let i = 0; i < points.length; i += 2) {
      const [x, y] = [X(held(points[i])), Y(points[i + 1])];
      if (y >= area.y - 1 && y <= area.y + area.height + 1) inFrame.push({ x, y, words: () => words(i / 2) });
    }
    return inFrame;
  });
  if (!candidates.length) return;
  const hair = svg('path', { class: 'hair' }), spot = svg('circle', { r: 3.5, class: 'spot' });
  const text = svg('text', { class: 'read' });
  const shown = svg('g', { class: 'readout', 'aria-hidden': 'true' }, hair, spot, text);
  shown.style.display = 'none';
  root.append(shown);
  root.addEventListener('pointermove', (event) => {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(root.getScreenCTM().inverse());
    const away = ({ x, y }) => (x - at.x) ** 2 + (y - at.y) ** 2;
    const near = candidates.reduce((best, point) => (away(point) < away(best) ? point : best));
    shown.style.display = away(near) < 3600 ? '' : 'none';
    hair.setAttribute('d', `M${near.x},${area.y}V${area.y + area.height}M${area.x},${near.y}H${area.x + area.width}`);
    spot.setAttribute('cx', near.x);
    spot.setAttribute('cy', near.y);
    const right = near.x < area.x + area.width / 2;
    const up = near.y > area.y + 40;
    const lines = near.words();
    text.setAttribute('text-anchor', right ? 'start' : 'end');
    text.replaceChildren(...lines.map((line, i) => svg('tspan', {
      x: near.x + (right ? 8 : -8), y: near.y + (up ? -6 - 14 * (lines.length - 1 - i) : 16 + 14 * i) }, line)));
  });
  root.addEventListener('pointerleave', () => { shown.style.display = 'none'; });
}

const inWords = (value) => String(Number(value.toPrecision(4))).replace('-', '−');
