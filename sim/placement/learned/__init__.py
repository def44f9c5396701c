"""Placement by a trained network, after DeepJS: features, brain, scheduler, rewards, training."""
