"""The measurement of Act IV-S: which decoders, on which prompts, timed how, written where."""
