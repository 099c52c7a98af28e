startTheme(document.querySelector('nav'));
document.querySelectorAll('figure.plot').forEach(startFigure);
document.querySelectorAll('table[data-tools]').forEach(startTable);
