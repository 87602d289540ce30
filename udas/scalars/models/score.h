/* Predictions for rows: from a payload to a checked scorer, from features to margins, from
 * margins to answers. */
#ifndef TUSK_SCORE_H
#define TUSK_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../../kvstore/mapped/sealed_cache.h"
#include "../sentence.h"
#include "../trees/compact.h"

/* Results other than numbers: the index of the class in the model's list of them, from 1 on;
 * the probabilities of all classes; an explanation (explaining/contributions.h); an interval
 * (interval.h); and of many rows their mean effects (explaining/effects.h). */
enum tusk_answer {
    TUSK_PREDICT,
    TUSK_PREDICT_PROBA,
    TUSK_DECISION,
    TUSK_PREDICT_CLASS,
    TUSK_PREDICT_PROBAS,
    TUSK_EXPLAIN_PREDICTION,
    TUSK_PREDICT_INTERVAL,
    TUSK_MARGINAL_EFFECTS,
    TUSK_ANSWERS
};

static const char *const TUSK_ANSWER_NAMES[TUSK_ANSWERS] = {
    "predict",        "predict_proba",      "decision",         "predict_class",
    "predict_probas", "explain_prediction", "predict_interval", "marginal_effects"};

/* The same functions with a row's offset; NULL: there is none. */
static const char *const TUSK_OFFSET_NAMES[TUSK_ANSWERS] = {
    [TUSK_PREDICT] = "predict_with_offset",
    [TUSK_PREDICT_PROBA] = "predict_proba_with_offset",
    [TUSK_PREDICT_CLASS] = "predict_class_with_offset",
};

/* Whether the result is a list of numbers. */
static inline bool tusk_answers_lists(enum tusk_answer answer) {
    return answer == TUSK_PREDICT_PROBAS || answer == TUSK_EXPLAIN_PREDICTION ||
           answer == TUSK_PREDICT_INTERVAL;
}

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

/* The names of classes, wherever a database keeps them; the text of a NULL has no data. */
typedef struct tusk_class_names {
    tusk_text (*text_at)(const void *names, uint64_t k);
    const void *names;
    uint64_t first, n;
} tusk_class_names;

/* Location of models that are larger than memory. */
typedef struct tusk_stores {
    sealed_cache *cache;
    const char *root; /* an absolute path; NULL: unknown */
    int64_t memory;   /* bytes of their files that may be mapped, roughly */
    /* Returns the root in which the caller may read a model, or NULL with an error. If the
     * function is NULL, `root` serves all models. */
    const char *(*readable)(const struct tusk_stores *stores, const char *reference, size_t length,
                            sealed_error *e);
    void *asker; /* for readable */
} tusk_stores;

/* The fields that determine a payload. */
typedef struct tusk_model_fields {
    tusk_text task, options, preparation;
    tusk_numbers coef, classes, spread;
    tusk_class_names class_names;
    bool has_intercept;
    double intercept;
} tusk_model_fields;

/* A number at any address, aligned or not. */
typedef double tusk_weight __attribute__((aligned(1)));

enum tusk_task {
    TUSK_LINEAR,
    TUSK_LOGISTIC,
    TUSK_SVM,
    TUSK_FACTORIZATION,
    TUSK_BOOSTED,
    TUSK_MULTINOMIAL, /* logistic with more than two classes */
    TUSK_NET,
    TUSK_TOPICS,  /* no scores of features: topics/topics.h */
    TUSK_MACHINE, /* factorization machines: fm/fm.c */
    TUSK_CENTRES, /* of clusters: clusters/clusters.h */
    TUSK_ORDINAL, /* of ordered levels: levels.c */
    TUSK_TASKS
};

/* Prediction of a number from its margin m: m, exp(m) or 1 / (1 + exp(-m)). */
enum tusk_response {
    TUSK_IDENTITY,
    TUSK_EXP,
    TUSK_INVERSE_LOGIT,
    TUSK_RESPONSES,               /* for custom tasks */
    TUSK_SHARES = TUSK_RESPONSES, /* margins of classes are shares; for two classes minus 1/2 */
    TUSK_INVERSE,                 /* 1 / m, by option `link` as those below */
    TUSK_SQUARE,                  /* m^2 */
    TUSK_INVERSE_ROOT,            /* 1 / sqrt(m) */
    TUSK_NORMAL_SHARE,            /* of classes, the normal distribution function */
    TUSK_CLOGLOG_SHARE,           /* of classes, 1 - exp(-exp(m)) */
    TUSK_ALL_RESPONSES
};

/* The coefficients of a matrix factorization: one vector per user, then one per item. A vector
 * holds the bias, if there are biases, and the factors. Feature `row * width + k` of a store is
 * element k of vector `row`. */
typedef struct tusk_factors {
    uint64_t n_users, n_items;
    uint64_t width; /* elements of a vector */
    bool biases;
} tusk_factors;

/* The numbers that a model keeps beside its weights. Intervals are computed from the Cholesky
 * factor of the covariance of the coefficients, or from distances from the prediction, by level;
 * without either their ends are NULL. Probabilities are computed from the slope and the intercept
 * of Platt's sigmoid, or from the margins and probabilities of the knots of an isotonic
 * regression. */
enum tusk_band_kind {
    TUSK_NO_SPREAD,
    TUSK_COVARIANCE,
    TUSK_CONFORMAL,
    TUSK_PLATT,
    TUSK_ISOTONIC,
    TUSK_BAND_KINDS
};

typedef struct tusk_band {
    enum tusk_band_kind kind;
    const tusk_weight *items; /* in the payload */
    uint64_t n;
    double freedom;  /* of Student's t; infinite: the normal distribution */
    double variance; /* of a label around its mean; NaN: unknown */
    double level, reach;
} tusk_band;

/* A checked model. coef points into the payload. A model in a store has no coef, and
 * tusk_forget_model must release its file and what predictions allocated. */
typedef struct tusk_scorer {
    bool null; /* whether its predictions are NULL */
    enum tusk_task task;
    enum tusk_response response;
    const tusk_weight *coef;
    uint64_t n_coef;
    /* For a model of trees, whether coef points to their compact form. */
    bool is_compact;
    tusk_compact trees;
    sealed_file *stored;
    sealed_cache *cache; /* the cache of its file */
    tusk_factors factors;
    double *average; /* the mean of the users' vectors, once needed, and room for another vector */
    bool averaged;   /* whether it is complete */
    tusk_text preparation; /* of rows with names (named/preparation.h); empty: there is none */
    const char *sqlstate;  /* of the last error; NULL: invalid parameter */
    double intercept;
    bool classifies; /* whether it predicts classes */
    double negative, positive;
    uint64_t n_classes;
    /* Labels of more than two classes; otherwise NULL. Each class has n_coef weights, the
     * intercept first, and coef has all of them; for trees n_coef counts all of coef. */
    const tusk_weight *labels;
    /* The n_classes - 1 thresholds of ordered levels, which share a margin; NULL: there are none.
     */
    const tusk_weight *cuts;
    bool places;        /* whether it predicts indices instead of classes */
    bool measures;      /* whether it returns a distance instead of a prediction */
    bool explains;      /* whether its lists are explanations instead of probabilities */
    bool has_interval;  /* whether they are intervals */
    tusk_band spread;   /* for these, and for calibrated probabilities */
    uint64_t list_size; /* length of a result that is a list */
} tusk_scorer;

#define TUSK_NO_FACTORS \
    "the classes of the model are not its numbers of users, of items and of elements a vector"

/* Reads the numbers of users, items and elements per vector, as stored in `classes`. */
bool tusk_read_factors(const double counts[3], tusk_factors *f);
/* Whether there are as many coefficients as the vectors of users and items need. */
bool tusk_check_factors(const double counts[3], uint64_t found, char *sentence);

#define TUSK_MOST_OUTPUTS 1000 /* margins of a model of trees */
/* Features of a model of trees: sparse rows are converted to dense ones, up to 128 MiB of
   memory. */
#define TUSK_MOST_TREE_FEATURES (UINT64_C(1) << 24)

/* Whether the number of coefficients of a model of trees with `outputs` margins matches its
   nodes. */
bool tusk_check_trees(const tusk_weight *coef, uint64_t n, uint64_t outputs, char *sentence);

/* Whether the number of coefficients of a net matches its layers, the last of them with this
 * many outputs. */
bool tusk_check_net(const tusk_weight *coef, uint64_t n, uint64_t outputs, char *sentence);

/* Whether n coefficients begin with the rising thresholds of this many levels. */
bool tusk_check_levels(const tusk_weight *coef, uint64_t n, uint64_t levels, char *sentence);

/* Whether the number of coefficients of a factorization machine matches its features. */
bool tusk_check_machine(const tusk_weight *coef, uint64_t n, char *sentence);

/* One row of sparse features. */
typedef struct tusk_sparse_row {
    const void *ids;    /* int32_t, or int64_t if wide */
    const void *values; /* float or double */
    uint64_t n_ids, n_values;
    bool wide;
} tusk_sparse_row;

static inline int64_t tusk_id_at(const tusk_sparse_row *row, uint64_t i) {
    return row->wide ? ((const int64_t *)row->ids)[i] : ((const int32_t *)row->ids)[i];
}

/* Returns false with a sentence if the payload is damaged or its model does not support this
 * result; then there is nothing to forget. Allocates nothing. */
bool tusk_read_model(tusk_text payload, const tusk_stores *stores, enum tusk_answer answer,
                     tusk_scorer *s, char *sentence);
void tusk_forget_model(tusk_scorer *s);

/* Whether the margin of a model may get an offset. False with a sentence. */
bool tusk_adds_offsets(const tusk_scorer *s, char *sentence);

/* The margins of n dense rows of width d, contiguous, float or double. Do not call it for a
 * null scorer. */
bool tusk_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n, double *out,
                  char *sentence);
bool tusk_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                        char *sentence);

static inline bool tusk_has_classes(const tusk_scorer *s) {
    return s->classifies;
}

/* Converts margins to the predicted classes or numbers. */
void tusk_to_predictions(const tusk_scorer *s, double *m, uint64_t n);
void tusk_to_probabilities(const tusk_scorer *s, double *m, uint64_t n);

/* Whether probabilities are those of held-out rows with the same margin. */
static inline bool tusk_is_calibrated(const tusk_scorer *s) {
    return s->spread.kind == TUSK_PLATT || s->spread.kind == TUSK_ISOTONIC;
}

/* The list_size numbers of a row, which is either sparse, or dense with d values in x, for a
 * result that is a list. */
bool tusk_list(tusk_scorer *s, const tusk_sparse_row *sparse, const void *x, bool f64, uint64_t d,
               double *out, char *sentence);

/* The probabilities of the n_classes classes, of models that have some. */
bool tusk_probabilities(tusk_scorer *s, const tusk_sparse_row *sparse, const void *x, bool f64,
                        uint64_t d, double *out, char *sentence);

#endif
