"""From findings to actions: what they claim of the step, which known cause fits, what to do first, what to measure."""
