/* A quadratic model of an objective, and how methods of descent would do on it. */
#ifndef TUSK_SPECTRUM_API_H
#define TUSK_SPECTRUM_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A curvature by the vectors of Lanczos' method. */
typedef struct tk_tridiagonal {
    int64_t k, p;
    double *diagonal; /* (k,) */
    double *beside;   /* (k,), the last 0 */
    double *basis;    /* (k, p), the vectors */
} tk_tridiagonal;
/* At most out.k steps of the method on a packed lower triangle, shape (p, p), from a gradient
 * (p,). The result is how many were made, fewer than k where the gradient has no component along
 * the other eigenvectors, 0 where it has none. scale, shape (p,): what rows and columns of the
 * triangle are multiplied by, or null. */
TK_API int64_t tk_lanczos(const double *packed, const double *scale, const double *gradient,
                          const tk_tridiagonal *out);
/* Turns a tridiagonal matrix's diagonal into its eigenvalues, in no order, and finds the first
 * components of their vectors, (k,). What is beside the diagonal is lost. 0 where they do not come
 * to rest. */
TK_API int tk_quadrature(int64_t k, double *diagonal, double *beside, double *first);
/* A quadratic model of an objective in coordinates y, in which its curvature is tridiagonal. */
typedef struct tk_quadratic {
    int64_t k, p;
    const double *diagonal; /* (k,), >= 0 */
    const double *beside;   /* (k,), the last 0; null: the curvature is diagonal */
    const double *gradient; /* (k,), where a method starts */
    const double *basis;    /* (k, p): the gradient by weight is gradient . basis; null: y's own */
    double first_step;
    double tolerance; /* the gradient's largest component by weight, at which a method ends */
    int64_t most;     /* errors */
} tk_quadratic;
enum { TK_QUASI_NEWTON, TK_SPECTRAL_STEPS, TK_CONJUGATE_GRADIENTS };
/* Runs a method on the model. norm and largest, (most,), get the gradient's norm at the start and
 * after each iteration, and its largest component by weight, which after many iterations is not
 * computed each time: then the last one's share of the norm stands for it. Without a basis largest
 * is the norm. The result is how many there are. */
TK_API int64_t tk_speculate(const tk_quadratic *model, int method, double *norm, double *largest);

#ifdef __cplusplus
}
#endif
#endif
