"""The blind round: programs written by somebody who had not read the rules, each with its truth."""
