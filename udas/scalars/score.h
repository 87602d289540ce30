/* What a model says of rows: model fields to a checked scorer, features to margins, margins to
 * answers. */
#ifndef TUSK_SCORE_H
#define TUSK_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../kvstore/mapped/sealed_cache.h"
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

/* Where models lie that are larger than memory. */
typedef struct tusk_stores {
    sealed_cache *cache;
    const char *root; /* an absolute path; NULL: unknown */
    int64_t memory;   /* bytes of their files that may be mapped, roughly */
    /* The root in which the asker may read a model, NULL with an error; NULL: `root` for all. */
    const char *(*readable)(const struct tusk_stores *stores, const char *reference, size_t length,
                            sealed_error *e);
    void *asker; /* for readable */
} tusk_stores;

/* What a prediction uses of a model. */
typedef struct tusk_model_fields {
    tusk_text task, options;
    tusk_numbers coef, classes;
    bool has_intercept;
    double intercept;
    tusk_stores stores;
} tusk_model_fields;

enum tusk_task { TUSK_LINEAR, TUSK_LOGISTIC, TUSK_SVM, TUSK_FACTORIZATION, TUSK_TASKS };

/* What a number is predicted as, of its margin m: m, exp(m) or 1 / (1 + exp(-m)). */
enum tusk_response { TUSK_IDENTITY, TUSK_EXP, TUSK_INVERSE_LOGIT, TUSK_RESPONSES };

/* The coefficients of a matrix factorization are one vector a user, then one an item: its bias, if
 * there are biases, and its factors. Feature `row * width + k` of a store is element k of vector
 * `row`. */
typedef struct tusk_factors {
    uint64_t n_users, n_items;
    uint64_t width; /* elements of a vector */
    bool biases;
} tusk_factors;

/* A checked model; coef is that of the fields. A model in a store has no coef, its file is to be
 * given back by tusk_forget_model. */
typedef struct tusk_scorer {
    bool null; /* its predictions are NULL */
    enum tusk_task task;
    enum tusk_response response;
    const double *coef;
    uint64_t n_coef;
    sealed_file *stored;
    sealed_cache *cache; /* whose file it is */
    tusk_factors factors;
    const char *sqlstate; /* of the last refusal, NULL: an invalid parameter */
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

/* False with a sentence for a model that cannot give this answer; there is nothing to forget. */
bool tusk_read_model(const tusk_model_fields *m, enum tusk_answer answer, tusk_scorer *s,
                     char *sentence);
void tusk_forget_model(tusk_scorer *s);

/* The margins of n dense rows of width d, one behind the other, float or double. Not for a null
 * scorer. */
bool tusk_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n, double *out,
                  char *sentence);
bool tusk_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                        char *sentence);

static inline bool tusk_has_classes(const tusk_scorer *s) {
    return s->task == TUSK_LOGISTIC || s->task == TUSK_SVM;
}

/* Margins to the classes that they stand for, or to the numbers that are predicted. */
void tusk_to_predictions(const tusk_scorer *s, double *m, uint64_t n);
void tusk_to_probabilities(double *m, uint64_t n);

#endif
