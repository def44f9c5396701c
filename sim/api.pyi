from sim import *
