"""Programs to calibrate and to play with: small, seeded, quick, and no schedulers.

`flood` calibrates a hydrological model against sensors, in the spirit of IFM; `maze` is the game
Maze Runner. Both stand beside SchedSim in section 4.1.1 of the Copper paper.
"""
