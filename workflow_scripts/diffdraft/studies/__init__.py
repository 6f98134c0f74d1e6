"""One package or module a study: typed rows in, named metrics out. No thresholds, no models."""
