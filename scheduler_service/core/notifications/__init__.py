"""Which events people asked to be told of, and what is said of each."""
