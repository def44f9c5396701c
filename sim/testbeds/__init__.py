"""Small seeded programs to calibrate, after section 4.1.1 of the Copper paper.

`flood` calibrates a hydrological model against sensors, in the spirit of IFM; `maze` is the game
Maze Runner. They may import `sim.model`.
"""
