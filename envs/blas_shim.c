/* Gives MLX's Linux CPU wheel a fast matrix product.
 *
 * The wheel leaves cblas_sgemm, cblas_dgemm and cblas_cgemm to be resolved when it is loaded, and
 * brings Netlib's reference library for them. PyPI's scipy-openblas32 exports the same functions
 * under the prefix scipy_. This file is the bridge; diffdraft/fast_blas.py compiles and loads it.
 * Integers are 32 bits wide on both sides (LP64), and the CBLAS enumerations are ints.
 */
#define BRIDGE(name, element, scalar)                                                              \
  void scipy_##name(int order, int trans_a, int trans_b, int m, int n, int k, scalar alpha,        \
                    const element *a, int lda, const element *b, int ldb, scalar beta, element *c, \
                    int ldc);                                                                      \
  void name(int order, int trans_a, int trans_b, int m, int n, int k, scalar alpha,                \
            const element *a, int lda, const element *b, int ldb, scalar beta, element *c,         \
            int ldc) {                                                                             \
    scipy_##name(order, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);           \
  }

BRIDGE(cblas_sgemm, float, float)
BRIDGE(cblas_dgemm, double, double)
BRIDGE(cblas_cgemm, void, const void *)
