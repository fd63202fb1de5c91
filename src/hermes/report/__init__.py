"""Draws a report as text, HTML, JSON or a spreadsheet; this package lays out results and computes none."""
