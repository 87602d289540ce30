/* A quadratic model of an objective, and how methods of descent would do on it. */
#ifndef TUSK_SPECTRUM_API_H
#define TUSK_SPECTRUM_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The eigenvalues of a packed lower triangle, shape (p, p), and a gradient's components along
 * their vectors, both (k,), in no order: of as many steps of Lanczos' method. The result is how
 * many there are, fewer than k where the gradient has no component along the others, 0 where it
 * has none. scale, shape (p,): what rows and columns of the triangle are multiplied by, or null.
 */
TK_API int64_t tk_quadrature(const double *packed, const double *scale, const double *gradient,
                             int64_t p, int64_t k, double *eigenvalue, double *component);
/* A quadratic model of an objective in the coordinates of its eigenvectors. */
typedef struct tk_quadratic {
    int64_t k;
    const double *eigenvalue; /* (k,), >= 0 */
    const double *gradient;   /* (k,), where a method starts */
    double first_step;
    double tolerance; /* the gradient's norm, at which a method ends */
    int64_t most;     /* errors */
} tk_quadratic;
enum { TK_QUASI_NEWTON, TK_SPECTRAL_STEPS, TK_CONJUGATE_GRADIENTS };
/* Runs a method on the model. errors, shape (most,), gets the gradient's norm at the start and
 * after each iteration; the result is how many there are. */
TK_API int64_t tk_speculate(const tk_quadratic *model, int method, double *errors);

#ifdef __cplusplus
}
#endif
#endif
