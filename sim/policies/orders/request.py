"""Orders by what a job asks for, or by when: they never change while it waits.

An *area* is processors times requested time.
"""

from sim.policies.kinds import Order

FCFS = Order("fcfs", "first come, first served", lambda facts: facts.submit_s)

SJF = Order("sjf", "shortest request first", lambda facts: facts.requested_s)

LJF = Order("ljf", "longest request first", lambda facts: -facts.requested_s)

SAF = Order("saf", "smallest area first", lambda facts: facts.requested_s * facts.procs)

LAF = Order("laf", "largest area first", lambda facts: -(facts.requested_s * facts.procs))
