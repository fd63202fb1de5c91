"""How the answers of `hermes migrate` look: text, JSON, SARIF, one-file HTML."""
