/* Kinds of models: a table of functions and properties for each way of scoring, and the tasks
 * by name (rowblock/tasks.h). All differences between learners are members here. */
#ifndef TUSK_KINDS_H
#define TUSK_KINDS_H

#include "score.h"

/* The statistic of a coefficient over its standard error. */
enum tusk_test { TUSK_UNTESTED, TUSK_STUDENT, TUSK_NORMAL };

/* What the labels of a task are (rowblock/tasks.h). */
enum tusk_labels_of {
    TUSK_OF_NUMBERS,
    TUSK_OF_TWO,
    TUSK_OF_CLASSES,
    TUSK_OF_LEVELS,
    TUSK_OF_EITHER,
    TUSK_OF_EITHER_TWO,
    TUSK_OF_RATINGS,
    TUSK_OF_DOCUMENTS,
    TUSK_OF_NONE
};

/* A task: how its models are scored, what their margins mean, and how coefficients are tested. */
typedef struct tusk_task_row {
    const char *name;
    enum tusk_task kind;
    enum tusk_response response;
    enum tusk_test test;
    enum tusk_labels_of labels;
    enum tusk_rows { TUSK_ROWS_APART, TUSK_ROWS_MERGED } rows; /* whether equal ones may be one */
} tusk_task_row;

/* The built-in task of this name, or NULL. */
const tusk_task_row *tusk_task_named(tusk_text name);
/* Writes "'linear', ... or 'fm'" at the end of a sentence that is `length` bytes long. */
void tusk_list_tasks(char *sentence, int length);

/* A kind of models. Functions may be NULL: then its weights are those of one linear margin, or
 * of one for each of several classes, the intercept first. */
typedef struct tusk_model_kind {
    /* Properties. */
    bool classifies;     /* its models always have classes */
    bool either;         /* an option of the training decides whether its models have classes */
    bool probabilities;  /* models of classes have probabilities */
    bool shares_weights; /* all classes of a model share its weights */
    bool has_terms;      /* coefficients are terms of the features, or of pairs */
    bool has_centres;    /* they are centres (clusters/clusters.h) */
    bool explains;       /* explain_prediction has contributions for its rows */
    bool adds_offsets;   /* rows may add an offset to its margin, of numbers or of two classes */
    bool keeps_gaps;     /* option `missing` is 'keep' unless given */
    unsigned refuses;    /* bits of enum tusk_answer that its models never give */
    const char *instead; /* recommended alternative for these, as the end of a sentence */
    bool reads_store;    /* `margins` serve models in a store and models without weights too */
    /* The sentence for a model that has lost its weights, if they are in its payload only;
     * NULL: they are in the field coef. */
    const char *lost;
    uint16_t format;      /* of a payload; 0: the first, or as its parts need */
    uint8_t most_classes; /* numbers in the head of its payload */
    const char *smaller;  /* advice for smaller models, as the end of a sentence */

    /* Whether n weights are those of a model with `outputs` margins; classes: the head's. */
    bool (*check)(const double classes[3], const tusk_weight *coef, uint64_t n, uint64_t outputs,
                  char *sentence);
    /* The margins of n dense rows of width d, (n,); with picks_class those of several classes
     * are the rows' classes. */
    bool (*margins)(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n, double *out,
                    char *sentence);
    bool (*sparse_margin)(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                          char *sentence);
    bool picks_class;
    /* The margins of all classes of a row, (n_classes,). */
    bool (*class_margins)(tusk_scorer *s, const void *x, bool f64, uint64_t d, double *out,
                          char *sentence);
    bool (*sparse_class_margins)(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                                 char *sentence);
    /* The probabilities of several classes of a row, (n_classes,). */
    bool (*shares)(tusk_scorer *s, const void *x, bool f64, uint64_t d, double *out,
                   char *sentence);
    bool (*sparse_shares)(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                          char *sentence);
} tusk_model_kind;

/* By enum tusk_task. */
extern const tusk_model_kind TUSK_KINDS[TUSK_TASKS];

static inline const tusk_model_kind *tusk_kind_of(uint8_t task) {
    return TUSK_KINDS + task;
}

/* The kind of a built-in task; NULL for another name. */
static inline const tusk_model_kind *tusk_kind_named(tusk_text name) {
    const tusk_task_row *task = tusk_task_named(name);
    return task ? tusk_kind_of((uint8_t)task->kind) : NULL;
}

#endif
