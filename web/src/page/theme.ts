// The colours of the page: the system's, or the visitor's choice, which is kept.

const key = 'outrider.theme';

/** The choices, the default first. */
export const themes = ['system', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

/** Reads the kept choice. */
export function keptTheme(): Theme {
  try {
    return themes.find((theme) => theme === localStorage.getItem(key)) ?? 'system';
  } catch {
    return 'system';
  }
}

/** Shows the page in the colours of a theme. */
export function showTheme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
}

/** Colours the page, and keeps the choice where the browser allows it. */
export function chooseTheme(theme: Theme): void {
  showTheme(theme);
  try {
    localStorage.setItem(key, theme);
  } catch {
    // The next visit begins with the system's colours.
  }
}
