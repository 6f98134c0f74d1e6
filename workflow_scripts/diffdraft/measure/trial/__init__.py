"""One text, drafted and natively: what `generate.py` shows."""
