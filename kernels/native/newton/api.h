/* Descents by Newton's steps. */
#ifndef TUSK_NEWTON_API_H
#define TUSK_NEWTON_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Descents by Newton's steps whose curvatures are known before the first pass: the chord
 * method, with corrections from the gradients. Each of the n groups `which` of a pass over
 * dense rows, whose loss is smooth, goes on by itself until it ends or gives up. */
typedef struct tk_chord {
    const tk_pass *pass;
    int64_t n;
    const int64_t *which;        /* (n,), rising */
    const double *hessian;       /* the lower triangles of all groups, with the penalty */
    int64_t stride;              /* doubles from one triangle to the next */
    const double *shift, *scale; /* (n_groups, d), coordinates as in tk_curvature */
    double l2;
    const double *size;        /* (n_groups,): of labels; NULL: 1 */
    const double *unit;        /* (n_groups,): of gradients; NULL: 1 */
    const double *weight_unit; /* (n_groups,): of margins; NULL: 1 */
    /* (n_groups, p), (n_groups, p) and (n_groups,): weights of z one step before the start, the
     * gradients and the violations there, NaN without such a step; NULL: none has one */
    const double *before, *before_gradient, *before_violation;
    double epsilon; /* the violation at which a group ends */
    double enough;  /* the violation from which on a last step is taken without a pass after it,
                     * if the previous step predicts that it suffices */
    double far;     /* violations above give up */
    double slow;    /* violations that shrink by a lesser factor give up, too */
    double pivot;   /* and curvatures with a smaller pivot, relative to the diagonal */
    int32_t most;   /* limit on passes of one group */
    double *v;      /* (n_groups, p), in and out */
    /* out, (n_groups,): objective, violation and possible change of the objective by rounding
     * at the last pass, and the violation one step before it, NaN without one */
    double *objective, *violation, *slack, *last;
    double *gradient; /* out, (n_groups, p): by weights of z, at the last pass */
    int64_t *steps;   /* out, (n_groups,) */
    int32_t *ended;   /* out, (n_groups,): 1 where a group is at its optimum */
    double *history;  /* out, (most, n_groups): objectives by pass */
} tk_chord;
TK_API int tk_chord_descend(const tk_chord *chord);

/* Newton's method on smooth losses, each group independently from start to end. */
typedef struct tk_newton {
    const double *shift, *scale; /* as in tk_curvature */
    const double *label_size;    /* (n_groups,): the size of residuals at 0; NULL: 1 */
    const double *gradient_unit; /* (n_groups,): unit of violations; NULL: 1 */
    const double *weight_unit;   /* (n_groups,): the unit of margins; NULL: 1 */
    double l2, epsilon;          /* the penalty's weight, and the violation to which to descend */
    double damping;              /* factor of the violation that is added to the diagonal of the
                                  * curvature, so that there is a step if a loss has a slope and no
                                  * curvature */
    int32_t quadratic;           /* whether the curvature is the same everywhere */
    int32_t most;                /* limit on iterations */
    double
        deadline; /* in seconds of the monotonic clock, after which no iteration begins; 0: none */
    double *weights;     /* of z, like those of a pass: the start on entry, then the result */
    double *found;       /* out, (n_groups, 3): objective, violation, possible change of the
                          * objective by rounding */
    double *gradient;    /* out, by the weights of z, in their shape */
    int64_t *iterations; /* out, (n_groups,) */
    int64_t *stuck;      /* out, (n_groups,): whether the last step failed at every length */
    double *history;     /* out, (n_groups, most): the objective after each iteration */
} tk_newton;
TK_API int tk_newton_groups(const tk_pass *pass, const tk_newton *newton);

#ifdef __cplusplus
}
#endif
#endif
