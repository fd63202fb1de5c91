"""Transports to the hosts of a job: SSH, Slurm, Kubernetes, or a command of your own."""
