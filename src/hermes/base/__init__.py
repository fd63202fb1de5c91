"""Units, intervals, errors and messages: code that every package may use and that knows no profiles."""
