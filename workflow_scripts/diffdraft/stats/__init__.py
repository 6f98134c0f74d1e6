"""Statistics that know nothing of studies: arrays in, numbers out."""
