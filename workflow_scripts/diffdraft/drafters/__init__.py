"""What proposes tokens: the diffusion-trained drafter, its baselines and its controls."""

from diffdraft import fast_blas

fast_blas.use()
