/* A quadratic model of an objective, and the convergence of descent methods on it. */
#ifndef TUSK_SPECTRUM_API_H
#define TUSK_SPECTRUM_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A curvature in the basis of Lanczos' method. */
typedef struct tk_tridiagonal {
    int64_t k, p;
    double *diagonal; /* (k,) */
    double *beside;   /* (k,), the last 0 */
    double *basis;    /* (k, p), the vectors */
} tk_tridiagonal;
/* At most out.k steps of Lanczos' method on a packed lower triangle, shape (p, p), from a
 * gradient (p,). Returns the number of steps, fewer than k if the gradient has no component
 * along the other eigenvectors, 0 if it is 0. scale, shape (p,): factors of rows and columns of
 * the triangle, or null. */
TK_API int64_t tk_lanczos(const double *packed, const double *scale, const double *gradient,
                          const tk_tridiagonal *out);
/* Turns a tridiagonal matrix's diagonal into its eigenvalues, in no order, and computes the
 * first components of their vectors, (k,). The off-diagonal `beside` is overwritten. Returns 0
 * without convergence. */
TK_API int tk_quadrature(int64_t k, double *diagonal, double *beside, double *first);
/* A quadratic model of an objective in coordinates y, in which its curvature is tridiagonal. */
typedef struct tk_quadratic {
    int64_t k, p;
    const double *diagonal; /* (k,), >= 0 */
    const double *beside;   /* (k,), the last 0; null: the curvature is diagonal */
    const double *gradient; /* (k,), at the start of a method */
    const double *basis;    /* (k, p): the gradient by weight is gradient . basis; null: y's own */
    double first_step;
    double tolerance; /* largest component of the gradient by weight at which a method ends */
    int64_t most;     /* capacity of norm and largest */
} tk_quadratic;
enum { TK_QUASI_NEWTON, TK_SPECTRAL_STEPS, TK_CONJUGATE_GRADIENTS };
/* Runs a method on the model. norm and largest, (most,), get the gradient's norm at the start
 * and after each iteration, and its largest component by weight, which after many iterations is
 * not computed each time: then the last ratio to the norm is reused. Without a basis largest is
 * the norm. Returns their number. */
TK_API int64_t tk_speculate(const tk_quadratic *model, int method, double *norm, double *largest);

#ifdef __cplusplus
}
#endif
#endif
