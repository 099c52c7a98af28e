// A figure as a file: the drawings of its canvas as one SVG with its looks inside, or as a PNG of twice its size.
const LOOKS = ['fill', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-linejoin', 'opacity', 'font-size', 'font-weight',
  'font-family', 'text-anchor'];

function withLooks(drawn) {
  const copy = drawn.cloneNode(true);
  copy.querySelectorAll('.readout, .unticked, .unchosen').forEach((one) => one.remove());
  const shown = [...drawn.querySelectorAll('*')].filter((element) => !element.closest('.readout, .unticked, .unchosen'));
  const from = [drawn, ...shown], to = [copy, ...copy.querySelectorAll('*')];
  to.forEach((element, i) => {
    const style = getComputedStyle(from[i]);
    for (const name of LOOKS) element.setAttribute(name, style.getPropertyValue(name));
    element.removeAttribute('class');
  });
  return copy;
}

function asOneSvg(canvas) {
  const outer = canvas.getBoundingClientRect();
  const drawings = [...canvas.querySelectorAll(':scope > svg:not(.unticked, .unchosen)')].map((drawn) => {
    const box = drawn.getBoundingClientRect(), copy = withLooks(drawn);
    for (const [name, value] of Object.entries({ x: box.x - outer.x, y: box.y - outer.y, width: box.width, height: box.height })) {
      copy.setAttribute(name, value.toFixed(1));
    }
    return copy;
  });
  const size = { width: Math.ceil(outer.width), height: Math.ceil(outer.height) };
  const back = svg('rect', { ...size, fill: getComputedStyle(document.body).backgroundColor });
  return [svg('svg', { ...size, viewBox: `0 0 ${size.width} ${size.height}` }, back, ...drawings), size];
}

async function asPng(blob, { width, height }) {
  const picture = new Image(), url = URL.createObjectURL(blob);
  picture.src = url;
  await picture.decode();
  const canvas = el('canvas', { width: 2 * width, height: 2 * height });
  const context = canvas.getContext('2d');
  context.scale(2, 2);
  context.drawImage(picture, 0, 0);
  URL.revokeObjectURL(url);
  return new Promise((done) => { canvas.toBlob(done, 'image/png'); });
}

function startDownload(figure) {
  const canvas = figure.querySelector('.canvas');
  const name = [figure.dataset.plot, figure.dataset.set].filter(Boolean).join('-').replace(/[^\w.-]+/g, '-');
  const tool = (kind, write) => {
    const button = el('button', { type: 'button' }, `Save as ${kind}`);
    button.addEventListener('click', async () => {
      const [whole, size] = asOneSvg(canvas);
      const text = new XMLSerializer().serializeToString(whole);
      const blob = new Blob([text], { type: 'image/svg+xml' });
      save(await write(blob, size), `${name}.${kind.toLowerCase()}`);
    });
    return button;
  };
  figure.append(el('div', { class: 'tools' }, tool('SVG', (blob) => blob), tool('PNG', asPng)));
}
