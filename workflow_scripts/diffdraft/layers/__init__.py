"""Layers a drafter needs beside mlx-lm's own: the gated delta rule and the gated LoRA."""

from diffdraft import fast_blas

fast_blas.use()
