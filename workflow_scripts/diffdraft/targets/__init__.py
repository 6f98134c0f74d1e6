"""Load and pin a target, its corpus and tokenizer; train the tiny one."""

from diffdraft import fast_blas

fast_blas.use()
