"""The draft-verify cycle, and a cache that commits or takes back."""

from diffdraft import fast_blas

fast_blas.use()
