"""Plants faults in training programs, and tests whether `hermes precision` names the first culprit."""
