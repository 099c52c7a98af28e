const STARTS = { det: startDet, histograms: startHistograms, training: startTraining };

startTheme(document.querySelector('nav'));
document.querySelectorAll('figure.plot').forEach((figure) => STARTS[figure.dataset.plot](figure));
document.querySelectorAll('table[data-tools]').forEach(startTable);
document.querySelectorAll('table.differences').forEach(startDifferences);
startSearch(document.getElementById('settings'));
