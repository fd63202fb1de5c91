"""Draws a report as text, HTML or JSON; computes nothing but the layout."""
