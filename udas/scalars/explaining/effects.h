/* Average marginal effects: how the mean of a linear or generalized linear model changes with each
 * feature, on average of the rows, with standard errors by the delta method. The effect of a
 * number is the mean derivative, that of a number which is 0 in some rows and 1 in all others the
 * mean change from 0 to 1, and that of a level of a category the mean change from the first level
 * or the reference. The derivative by a column goes through its products with others too. Words
 * and sines of dates have none. */
#ifndef TUSK_EFFECTS_H
#define TUSK_EFFECTS_H

#include "../metrics/scored.h"
#include "../metrics/table.h"
#include "../named/named.h"

#define TUSK_MOST_EFFECTS 1023 /* features of a model */

/* A model and sums over its rows, as one piece of bytes that may be copied. */
typedef struct tusk_effects tusk_effects;

/* A row of features, in one of three forms. */
typedef struct tusk_effect_row {
    tusk_named_rows *named; /* whose columns are matched, and the index of the row in them */
    uint64_t at;
    const tusk_sparse_row *sparse;
    const void *x; /* d numbers */
    uint64_t d;
    bool f64; /* of `sparse` and `x` */
    double weight, offset;
} tusk_effect_row;

/* Starts sums without rows in memory from `room`. payload: of the scorer, which is not null;
 * names: of its features, by index. NULL with a sentence if the model has too many features, or if
 * memory is out. */
tusk_effects *tusk_effects_new(const tusk_scorer *s, tusk_text payload,
                               const tusk_class_names *names, tusk_grow room, char *sentence);
size_t tusk_effects_size(const tusk_effects *e);
/* Whether bytes of this length may be those of sums. */
bool tusk_effects_fit(const void *bytes, size_t size);
/* The payload, in the sums. */
tusk_text tusk_effects_model(const tusk_effects *e);
/* Whether sums are of the model with this payload; false with a sentence. */
bool tusk_effects_of(const tusk_effects *e, tusk_text payload, char *sentence);

/* Adds a row; one with a NULL that the model does not fill, and one of weight 0, change nothing.
 * False with a sentence. */
bool tusk_effects_add(tusk_effects *e, tusk_scorer *s, const tusk_effect_row *row, char *sentence);
/* Leaves the source unchanged. False with a sentence if the models differ. */
bool tusk_effects_merge(tusk_effects *target, const tusk_effects *source, char *sentence);

/* The effect of a feature. NaN: not known. */
typedef struct tusk_effect {
    uint64_t feature;
    double effect, std_err;
} tusk_effect;

/* Whether any row weighs. */
bool tusk_effects_known(const tusk_effects *e);
/* Writes the effects, at most TUSK_MOST_EFFECTS, and returns their number. *freedom: of the
 * statistics' distribution; infinite: the normal one. */
uint64_t tusk_effects_give(const tusk_effects *e, tusk_effect *out, double *freedom);

/* The effects as rows of a table. */
extern const tusk_table TUSK_EFFECTS_TABLE;
void tusk_effects_write(const tusk_effects *e, tusk_writer writer);

#define TUSK_OTHER_EFFECTS                                                                  \
    "rows of a group have different models, expected one: group by the column that it was " \
    "trained by"

#endif
