/* Solvers for the hinge loss with state for each row. */
#ifndef TUSK_HINGE_API_H
#define TUSK_HINGE_API_H

#include "../shared/api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Dual coordinate descent for the hinge with l2 > 0 (dual.cpp). It works on z = x - shift, and
 * weights are those of z. In arrays with one item per row, the items of group g begin at
 * offset[g], in the order in which the pass reads its rows. */
typedef struct tk_dual_group {
    int64_t n_rows, in_use;  /* number of rows, and of rows that are not shrunk */
    double rho, centre;      /* the intercept's penalty is rho/2 (b - centre)^2 */
    double most, least;      /* projected gradients beyond which rows are shrunk */
    uint64_t random;         /* state of the random generator */
    double objective, bound; /* from tk_dual_check: the objective at the best intercept, and a
                                lower bound of the optimum */
    double intercept;        /* from tk_dual_check: the best intercept for the weights */
    double gained;           /* approximate increase of the dual by the last tk_dual_epoch */
} tk_dual_group;
typedef struct tk_dual {
    double l2;
    double tolerance;      /* range of projected gradients at which the sweeps may end */
    const double *shift;   /* (n_groups, d) */
    const int64_t *offset; /* (n_groups,) */
    double *alpha;         /* (rows,) dual variables, from 0 to the row's weight */
    double *norm;          /* (rows,) ||z||^2 */
    double *margin;        /* (rows,) w.z: scratch */
    int32_t *order;        /* (rows,) numbers of the rows, those in use first */
    int8_t *sign;          /* (rows,) the class, -1 or 1 */
    double *weight;        /* (rows,) weights of the rows over their mean; NULL: 1 */
    tk_dual_group *groups; /* (n_groups,) the caller initialises random and centre */
} tk_dual;
/* Initialises the arrays at alpha = 0. */
TK_API int tk_dual_start(const tk_pass *pass, tk_dual *dual);
/* Visits about as many coordinates as there are rows, or fewer if it converges earlier. Updates
 * weights, (n_groups, d + 1). */
TK_API int tk_dual_epoch(const tk_pass *pass, tk_dual *dual, double *weights);
/* Computes objective, bound and intercept of each group. */
TK_API int tk_dual_check(const tk_pass *pass, tk_dual *dual, const double *weights);

/* L-BFGS or the steps of Barzilai and Borwein on a few dense rows, up to the duality gap
 * (tried.cpp), to estimate the iterations of a training. */
typedef struct tk_tried {
    int64_t n, p;          /* number of rows; features, and the intercept */
    const float *z;        /* (p - 1, n), column by column */
    const double *sign;    /* (n,), the class, -1 or 1 */
    const double *l2;      /* (p - 1,), of each weight, or null: no penalty */
    const double *corners; /* (n_corners,), from blunt to sharp */
    int64_t n_corners;
    double epsilon, weight_unit;
    int fit_intercept;
    int64_t most;   /* limit on iterations of all corners */
    double seconds; /* limit on the calling thread's processor time */
} tk_tried;
/* Trains from weights (p,), which it overwrites. Returns the number of iterations to the
 * optimum, or minus the number made if that was not reached. method is one of TK_QUASI_NEWTON
 * and TK_SPECTRAL_STEPS. */
TK_API int64_t tk_try_hinge(const tk_tried *rows, int method, double *weights);

/* An interior-point method for the hinge (interior.cpp). In arrays with one item per row, the
 * items of group g begin at offset[g], in the order in which the pass reads its rows. */
enum tk_interior_mode {
    TK_AFFINE = 0, /* step towards the optimum itself */
    TK_CORRECTED =
        1, /* step to the point where each product of a variable and its slack is `target` */
    TK_DUAL_LOW = 2, /* only for tk_interior_slopes: the dual variables of the class -1, or those
                        below the tilt */
    TK_DUAL_HIGH = 3 /* the same for the class +1, or above it */
};
typedef struct tk_interior_group {
    int64_t n_rows;
    double tilt;    /* 1 - quantile, where labels are numbers; 0: they are classes, of a hinge */
    double beside;  /* how far from their bounds excess and slack start, in units of margins */
    double target;  /* these three are set by the caller */
    double step;    /* longest step that keeps all variables >= 0, at most 1.01 */
    double product; /* mean product of a variable and its slack: after that step when
                       tk_interior_aim is called with TK_AFFINE, else the current one */
    double loss;    /* mean loss */
    double total;   /* mean dual variable */
    double low;  /* the mean of (dual variable - tilt) (excess - slack) where the first factor */
    double high; /* is at most 0, and where it is above; 0 for the other rows */
} tk_interior_group;
typedef struct tk_interior {
    const int64_t *offset; /* (n_groups,) */
    double *alpha;         /* (rows,) dual variables, between 0 and the row's weight */
    double *slack;         /* (rows,) y m + excess - 1 > 0, or m + excess - label */
    double *excess;        /* (rows,) > 0, an upper bound of the hinge, or of label - m */
    double *affine, *move; /* (rows,) change of the margin: for TK_AFFINE, and for TK_CORRECTED */
    double *slope;         /* (rows,) scratch: result of tk_interior_slopes */
    double *curvature;     /* (rows,) scratch: result of tk_interior_slopes */
    int8_t *sign;          /* (rows,) the class, -1 or 1 */
    double *weight;        /* (rows,) weights of the rows over their mean; NULL: 1 */
    tk_interior_group *groups;
} tk_interior;
/* Initialises the arrays for the margins of weights (n_groups, d + 1). */
TK_API int tk_interior_start(const tk_pass *pass, tk_interior *rows, const double *weights);
/* Computes each row's factor in the right-hand side, and its curvature, for the mode. */
TK_API int tk_interior_slopes(const tk_pass *pass, tk_interior *rows, int mode);
/* Sums the slopes times the rows. out has shape (n_groups, d + 3), like that of tk_gradient; its
 * loss is 0. */
TK_API int tk_interior_gradient(const tk_pass *pass, const tk_interior *rows, double *out);
/* The same sums, followed by the curvature as in tk_curvature, all computed in double. */
TK_API int tk_interior_curvature(const tk_pass *pass, const tk_interior *rows, const double *shift,
                                 const double *scale, double *out);
/* Computes how the margins change with a change `weights` of the weights, and the longest step. */
TK_API int tk_interior_aim(const tk_pass *pass, tk_interior *rows, const double *weights,
                           int mode);
/* Moves all variables by the `step` of their group. */
TK_API int tk_interior_move(const tk_pass *pass, tk_interior *rows);

#ifdef __cplusplus
}
#endif
#endif
