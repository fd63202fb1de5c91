"""Facts about chips, kernels and libraries, each with its source; no code that decides anything."""
