// Light, dark, or as the system has it. It runs in the head: no page is painted in another theme first.
(() => {
  'use strict';
  const THEMES = ['auto', 'light', 'dark'], root = document.documentElement;
  // Saved for the next visit where the browser lets a page save anything.
  const saved = (value) => {
    try {
      if (value) localStorage.setItem('asdf-report-theme', value);
      return localStorage.getItem('asdf-report-theme');
    } catch {
      return null;
    }
  };
  root.dataset.theme = THEMES.includes(saved()) ? saved() : 'auto';
  document.addEventListener('DOMContentLoaded', () => {
    const button = document.createElement('button');
    const name = () => { button.textContent = `Theme: ${root.dataset.theme}`; };
    Object.assign(button, { type: 'button', id: 'theme' });
    button.addEventListener('click', () => {
      root.dataset.theme = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
      saved(root.dataset.theme);
      name();
    });
    name();
    document.querySelector('nav, footer').append(button);
  });
})();
