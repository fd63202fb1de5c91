"""The web app: a loopback server over the cached tables and the analysis, and the pages that it serves."""
