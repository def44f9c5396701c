"""The Joulie generator: AI workloads made of pods, with arrivals, families and profiles."""
