"""The web app: a server on this machine that shows the analysis and its tables as pages."""
