/* log_loss, accuracy, rmse, mae and r2: sums over rows, which merge in any order. */
#ifndef TUSK_METRIC_H
#define TUSK_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "sentence.h"

/* Neumaier's sum: carry holds what rounding took from sum, so that the result hardly depends on
 * the order. */
typedef struct tusk_sum {
    double sum, carry;
} tusk_sum;

/* All zero bytes is no rows. */
typedef struct tusk_score {
    int64_t n;
    tusk_sum error;      /* of the rows' losses, or how many were right */
    double origin, mean; /* r2: the first label, and the mean of the labels counted from there */
    double spread;       /* r2: sum of the squared distances of the labels from their mean */
    bool zero, minus;    /* log_loss: a label was 0, a label was -1 */
} tusk_score;

enum tusk_metric_kind { TUSK_LOG_LOSS, TUSK_ACCURACY, TUSK_RMSE, TUSK_MAE, TUSK_R2, TUSK_METRICS };

typedef struct tusk_metric {
    const char *name;
    /* Takes the row (y, p) into the state, whose n counts it already; false with a sentence when
     * it is no good. */
    bool (*take)(tusk_score *s, double y, double p, char *sentence);
    /* The metric of at least one row; NULL when *null is set. */
    double (*give)(const tusk_score *s, bool *null);
    bool boolean_second; /* the second argument may be boolean */
} tusk_metric;

const tusk_metric *tusk_metric_of(enum tusk_metric_kind kind);

bool tusk_score_take(tusk_score *s, const tusk_metric *m, double y, double p, char *sentence);
/* The source stays as it was. */
bool tusk_score_merge(tusk_score *target, const tusk_score *source, char *sentence);
/* The metric; NULL when *null is set. */
double tusk_score_give(const tusk_score *s, const tusk_metric *m, bool *null);

#endif
