"""Names of the device's own settings in the table `setting`, which readers and rules share."""

DEVICE_MEMORY = "device memory (B)"
CUBES = "cube cores"
CUBE_CLOCK = "rated clock of the cube cores (MHz)"
