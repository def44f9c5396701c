"""Slurm executor: runs in jobs of Slurm, by pilots that ask for one run after another."""
