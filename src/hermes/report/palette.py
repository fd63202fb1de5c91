"""The colours of the HTML report by meaning, light and dark; contrast and colour blindness are tested."""

from __future__ import annotations

# Hues after Okabe and Ito; their lightness differs too, so all colours stay distinct with any colour blindness.
LIGHT: dict[str, str] = {
    "paper": "#ffffff",
    "panel": "#f4f5f6",
    "ink": "#1a1d21",
    "muted": "#575e66",
    "rule": "#d5d9dd",
    "edge": "#7d858d",
    "link": "#0a56a8",
    "warn": "#8a4b00",
    "warn-panel": "#fdf5e6",
    "compute": "#23589c",
    "comm": "#c4501b",
    "wait": "#b065a8",
    "copy": "#2c9c7c",
    "host": "#4a4a12",
    "free": "#dfe2e6",
}
DARK: dict[str, str] = {
    "paper": "#14171a",
    "panel": "#1c2024",
    "ink": "#e3e6e9",
    "muted": "#a0a8b0",
    "rule": "#343a40",
    "edge": "#7b848d",
    "link": "#7db8f0",
    "warn": "#e8b066",
    "warn-panel": "#272117",
    "compute": "#4f8fd6",
    "comm": "#e8793f",
    "wait": "#d9a8dc",
    "copy": "#55cfae",
    "host": "#efe08a",
    "free": "#353b42",
}


def style() -> str:
    """The palette as CSS: the system's choice, unless the page's `data-theme` says otherwise."""
    return (
        f":root {{ color-scheme: light; {_variables(LIGHT)} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ color-scheme: dark; {_variables(DARK)} }} }}\n"
        f':root[data-theme="light"] {{ color-scheme: light; {_variables(LIGHT)} }}\n'
        f':root[data-theme="dark"] {{ color-scheme: dark; {_variables(DARK)} }}\n'
    )


def _variables(colours: dict[str, str]) -> str:
    return " ".join(f"--{name}: {value};" for name, value in colours.items())
