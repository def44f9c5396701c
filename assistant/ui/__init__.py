"""Pages of the browser UI. They show values and return intents; they decide nothing."""
