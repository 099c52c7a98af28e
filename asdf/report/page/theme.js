// Light, dark, or as the system has it; saved for the next visit where the browser lets a page save anything.
const THEMES = ['auto', 'light', 'dark'];

function startTheme(nav) {
  const saved = (value) => {
    try {
      if (value) localStorage.setItem('asdf-report-theme', value);
      return localStorage.getItem('asdf-report-theme');
    } catch {
      return null;
    }
  };
  const button = el('button', { type: 'button', id: 'theme' });
  const use = (theme) => {
    document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  button.addEventListener('click', () => {
    const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    saved(next);
    use(next);
  });
  const before = saved();
  use(THEMES.includes(before) ? before : 'auto');
  nav.append(button);
}
