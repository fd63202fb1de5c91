"""How the table `setting` tells of the device."""

DEVICE_MEMORY = "device memory (B)"
CUBES = "cube cores"
CUBE_CLOCK = "rated clock of the cube cores (MHz)"
