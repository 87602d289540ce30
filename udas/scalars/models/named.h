/* Rows with names as models read them: columns in any order, matched to the model's by name. */
#ifndef TUSK_SCALARS_NAMED_H
#define TUSK_SCALARS_NAMED_H

#include "score.h"

/* One column of some rows. Either numbers or texts is NULL. */
typedef struct tusk_given_column {
    const char *name;
    const double *numbers;
    const tusk_text *texts;
    const uint64_t *validity; /* a bit per row; NULL: no row is NULL */
} tusk_given_column;

static inline bool tusk_given_valid(const tusk_given_column *c, uint64_t row) {
    return !c->validity || (c->validity[row >> 6] >> (row & 63) & 1);
}

#endif
