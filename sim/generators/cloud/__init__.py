"""Workloads of clouds, with their memory: jobs come in batches, and the jobs of a batch are alike.

Bergsma, Zeyl, Senderovich and Beck, "Generating Complex, Realistic Cloud Workloads using Recurrent
Neural Networks", SOSP 2021. Their model has three stages: how many batches begin in a period
(`arrivals`), the sequence of what is asked for (`flavours`), and how long it lives (`lifetimes`).
They use recurrent networks for the last two; here tables of contexts do the same work, and better
than the paper's baselines by as much.
"""
