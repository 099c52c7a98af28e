// The effect of settings stays as it stands on the page.
const STARTS = { det: startDet, histograms: startHistograms, training: startTraining, effect: () => {} };

startTheme(document.querySelector('nav'));
document.querySelectorAll('figure.plot').forEach((figure) => {
  figure.querySelectorAll('p.legend').forEach((one) => one.remove());
  STARTS[figure.dataset.plot](figure);
  startDownload(figure);
});
document.querySelectorAll('table[data-tools]').forEach(startTable);
document.querySelectorAll('table.differences').forEach(startDifferences);
startSearch(document.getElementById('settings'));
