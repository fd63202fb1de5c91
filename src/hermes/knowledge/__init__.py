"""Facts about chips, kernels and libraries, each with its source; this package decides nothing."""
