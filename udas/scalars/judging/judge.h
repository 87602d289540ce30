/* Evaluation of models on rows that they were not trained on, with the arithmetic of SQL's
   metrics. */
#ifndef TUSK_JUDGE_H
#define TUSK_JUDGE_H

#include "../../rowblock/batch.h"
#include "../calls.h"

/* The metric: its name in SQL, and its parameter if it has one. */
typedef struct tusk_judging {
    const char *metric;
    double parameter; /* pinball: the quantile; tweedie_deviance: the power */
    /* The current number of cancelled trainings, and that at the start; it stops if these
     * differ. */
    int64_t (*cancels)(void);
    int64_t mark;
    int32_t threads;
    /* If not NULL, of each row of group i, from row begin[i] on, its label, its prediction or for
     * metrics of rankings its margin, and its weight. Two classes are 0 and 1, and a label that
     * the training did not see is NaN, as is the margin of a model that knows one class. */
    double *rows;
    const int64_t *begin;
    /* Function of the pool, `tusk_pool` in `schedule/native/pool.h`. */
    int (*run)(int64_t n, int32_t threads, int (*task)(void *context, int64_t number),
               void *context);
} tusk_judging;

/* Evaluates model i on the rows of group i; out, of shape (n,), is NaN if the rows do not
 * determine the metric, it is not defined for a prediction, or the model predicts NULL. Returns
 * 0 if rejected, -1 if cancelled. */
int tusk_judge(const tusk_models *models, const tusk_group *groups, const tusk_judging *how,
               double *out, tusk_refusal *why);

#endif
