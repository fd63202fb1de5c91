"""Plans on which host cores each rank runs: reads the machine, makes a plan, applies the plan, and undoes it."""
