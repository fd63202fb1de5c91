"""Reads recordings of Hermes and dumps of msProbe."""
