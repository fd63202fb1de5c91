"""The second blind round: other programs, by somebody who had not read the rules, each with its truth."""
