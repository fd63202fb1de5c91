"""Which cores each rank should run on: reads the machine, makes a plan, applies it, takes it back."""
