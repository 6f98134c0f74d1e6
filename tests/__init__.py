"""The tests mirror the library.

They run on the BLAS that the scripts run on: results are compared bit for bit between this process
and scripts that it starts, and test modules import MLX before they import diffdraft.
"""

from diffdraft import fast_blas

fast_blas.use()
