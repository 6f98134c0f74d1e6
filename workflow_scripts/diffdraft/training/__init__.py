"""Train a drafter against a frozen target, with exact resume."""

from diffdraft import fast_blas

fast_blas.use()
