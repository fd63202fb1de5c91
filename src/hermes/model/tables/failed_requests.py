"""How the table `counter` tells of requests for memory that failed: the source, and the series of each."""

OUT_OF_MEMORY = "out of memory"
ASKED = "asked for (B)"
LEFT = "left on the device (B)"
