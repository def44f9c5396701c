"""The Joulie generator: AI workloads of pods, with arrivals, families and profiles."""
