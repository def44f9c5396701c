"""One run in full, and beside another: what came of it, who wanted it, the schedule behind it."""
