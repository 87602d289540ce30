/* The kinds of margins that score.c chooses among. */
#ifndef TUSK_MARGINS_H
#define TUSK_MARGINS_H

#include "../rowblock/rowblock.h"
#include "score.h"

/* out = x w + b for x of shape (n, d), float or double. */
void tusk_dot_rows(const void *x, bool f64, uint64_t d, uint64_t n, const double *w, double b,
                   double *out);

/* Below 0, or above the largest that trainings take. */
static inline bool tusk_is_no_id(int32_t id) {
    return id < 0 || id > TUSK_MAX_FEATURE_ID;
}

bool tusk_refuse_id(int32_t id, char *sentence);

/* Of a model in a store (stored.c); as tusk_margins and tusk_sparse_margin. */
bool tusk_stored_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                         double *out, char *sentence);
bool tusk_stored_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                               char *sentence);
/* Refuses with what the reader of a store says. */
bool tusk_refuse_stored(tusk_scorer *s, const sealed_error *e, char *sentence);

/* Of rows [user, item] by a matrix factorization (factors.c). */
bool tusk_factor_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                         double *out, char *sentence);

#endif
