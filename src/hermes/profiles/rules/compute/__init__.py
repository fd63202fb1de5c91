"""Rules about compute: idle units, unfused kernels, layouts, types and slow devices."""
