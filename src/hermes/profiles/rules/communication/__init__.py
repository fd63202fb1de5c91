"""Rules about communication: exposed transfers, stragglers, small collectives, slow links."""
