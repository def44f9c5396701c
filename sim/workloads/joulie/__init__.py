"""The Joulie generator: AI workloads of pods on Kubernetes, with arrivals, families and profiles."""
