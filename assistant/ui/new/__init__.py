"""*New*: four steps to an experiment and a review; nothing is stored before it is started."""
