"""Slurm executor: Slurm jobs (pilots) connect to this process and request one run at a time."""
