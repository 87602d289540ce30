/* What a model says of rows: model fields to a checked scorer, features to margins, margins to
 * answers. */
#ifndef TUSK_SCORE_H
#define TUSK_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sentence.h"

enum tusk_answer { TUSK_PREDICT, TUSK_PREDICT_PROBA, TUSK_DECISION, TUSK_ANSWERS };

static const char *const TUSK_ANSWER_NAMES[TUSK_ANSWERS] = {"predict", "predict_proba",
                                                            "decision"};

/* data is NULL for a NULL. */
typedef struct tusk_text {
    const char *data;
    size_t length;
} tusk_text;

/* n is 0 for a NULL. */
typedef struct tusk_numbers {
    const double *items;
    uint64_t n;
    bool complete; /* no item is NULL */
} tusk_numbers;

/* What a prediction uses of a model. */
typedef struct tusk_model_fields {
    tusk_text task, options;
    tusk_numbers coef, classes;
    bool has_intercept;
    double intercept;
} tusk_model_fields;

enum tusk_task { TUSK_LINEAR, TUSK_LOGISTIC, TUSK_SVM, TUSK_TASKS };

/* A checked model; coef is that of the fields. */
typedef struct tusk_scorer {
    bool null; /* its predictions are NULL */
    enum tusk_task task;
    const double *coef;
    uint64_t n_coef;
    double intercept;
    uint64_t n_classes;
    double negative, positive;
} tusk_scorer;

/* One row of sparse features. */
typedef struct tusk_sparse_row {
    const int32_t *ids;
    const void *values; /* float or double */
    uint64_t n_ids, n_values;
} tusk_sparse_row;

/* False with a sentence for a model that cannot give this answer. */
bool tusk_read_model(const tusk_model_fields *m, enum tusk_answer answer, tusk_scorer *s,
                     char *sentence);

/* The margins of n dense rows of width d, one behind the other, float or double. Not for a null
 * scorer. */
bool tusk_margins(const tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                  double *out, char *sentence);
bool tusk_sparse_margin(const tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                        char *sentence);

/* Margins to the classes that they stand for. */
void tusk_to_classes(const tusk_scorer *s, double *m, uint64_t n);
void tusk_to_probabilities(double *m, uint64_t n);

#endif
