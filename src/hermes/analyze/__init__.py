"""Pure functions from tables to measures: no files, no clock, no verdicts."""
