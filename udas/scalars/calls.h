/* Predictions for Python, a caller without a database: the functions that SQL calls, applied to
 * arrays. */
#ifndef TUSK_CALLS_H
#define TUSK_CALLS_H

#include "explaining/effects.h"
#include "models/score.h"
#include "named/named.h"

/* Rows of features. Dense: x has the shape (n, width). Sparse: row i has the ids ids[begin[i]]
 * .. ids[begin[i + 1] - 1], and x holds their values. */
typedef struct tusk_rows {
    const void *x;        /* float or double */
    const void *ids;      /* int32, or int64 if wide; NULL: dense */
    const int64_t *begin; /* [n + 1], sparse only */
    int64_t n, width;
    int32_t f64;
    int32_t wide; /* whether ids are int64 */
} tusk_rows;

/* Why there is no result. */
typedef struct tusk_refusal {
    char sentence[TUSK_SENTENCE];
    char sqlstate[6];
} tusk_refusal;

/* Writes the payload of a model's fields into `out` and returns its size. If the size exceeds
 * `room`, nothing is written. -1: rejected. */
int64_t tusk_make_payload(const tusk_model_fields *fields, char *out, int64_t room,
                          tusk_refusal *why);

/* The texts of an array, as `tusk_class_names` reads them. */
tusk_text tusk_text_in(const void *texts, uint64_t k);

/* Whether a class has a name that is not its number. */
bool tusk_class_names_are_text(const tusk_class_names *names, tusk_numbers classes);

/* Computes one result per row, or the list_size numbers of a list, which are unchanged for a
 * model whose predictions are NULL. level: of intervals. root: of stored models; NULL: the
 * default. Returns 0 if rejected. */
int tusk_answer_rows(tusk_text payload, int answer, double level, const char *root,
                     const tusk_rows *rows, double *out, tusk_refusal *why);

/* The same for n rows of columns by name, for a model that is in no store or in the default
 * root. A NULL prediction is NaN. */
int tusk_answer_named(tusk_text payload, int answer, double level,
                      const tusk_given_column *columns, int32_t n_columns, int64_t n, double *out,
                      tusk_refusal *why);

/* Rows with names, or of features if `columns` is NULL, and what each of them counts. */
typedef struct tusk_weighed_rows {
    const tusk_given_column *columns;
    int64_t n_columns, n;
    tusk_rows rows;
    const double *weight, *offset; /* (n,); NULL: 1 and 0 */
} tusk_weighed_rows;

/* Writes the average marginal effects to `out`, room for TUSK_MOST_EFFECTS, and returns their
 * number; 0 if no row counts, or the model predicts NULL. -1: rejected. */
int64_t tusk_effects_over(tusk_text payload, const tusk_weighed_rows *rows, tusk_effect *out,
                          tusk_refusal *why);

#endif
