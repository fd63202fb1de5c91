"""How the table `setting` tells of the device."""

DEVICE_MEMORY = "device memory (B)"
