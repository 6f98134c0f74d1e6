"""Rows measured on models: positions, timings, and the stage-0 checks."""

from diffdraft import fast_blas

fast_blas.use()
