"""Names in the table `counter` for failed requests for device memory: their source and series."""

OUT_OF_MEMORY = "out of memory"
ASKED = "asked for (B)"
LEFT = "left on the device (B)"
