/* The metrics that are sums over rows; their states merge in any order. */
#ifndef TUSK_METRIC_H
#define TUSK_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "../sentence.h"
#include "sum.h"

/* All zero bytes means no rows. */
typedef struct tusk_score {
    double n;            /* the sum of the rows' weights */
    tusk_sum error;      /* sum of the rows' losses, or of correct rows, each times its weight */
    double origin, mean; /* r2: the first label, and the mean of the labels relative to it */
    double spread;       /* r2: sum of the squared distances of the labels from their mean */
    bool begun;          /* r2: whether there is a first label */
    bool zero, minus;    /* log_loss, brier: whether a label was 0, or -1 */
} tusk_score;

enum tusk_metric_kind {
    TUSK_LOG_LOSS,
    TUSK_ACCURACY,
    TUSK_RMSE,
    TUSK_MAE,
    TUSK_R2,
    TUSK_BRIER,
    TUSK_MAPE,
    TUSK_PINBALL,
    TUSK_POISSON_DEVIANCE,
    TUSK_GAMMA_DEVIANCE,
    TUSK_TWEEDIE_DEVIANCE,
    TUSK_METRICS
};

/* A row: the label, the prediction, and the third argument of a metric that has one. For a row
 * with the probabilities of all classes p is that of the label, y is 1, and others is the other
 * classes' part of brier. */
typedef struct tusk_judged {
    double y, p, parameter, others, weight;
} tusk_judged;

typedef struct tusk_metric {
    const char *name;
    /* The row's loss, before its weight; false with a sentence if the row is invalid. The state's
     * n already counts the row. */
    bool (*take)(tusk_score *s, const tusk_judged *row, double *loss, char *sentence);
    /* The metric for rows with a weight above 0; NULL if *null is set. */
    double (*give)(const tusk_score *s, bool *null);
    bool classes;   /* both arguments may be boolean, or both text */
    bool parameter; /* has a third argument, a number */
    bool shares;    /* also takes the probabilities of all classes */
} tusk_metric;

const tusk_metric *tusk_metric_of(enum tusk_metric_kind kind);

/* Sums of such weights are finite. */
#define TUSK_MOST_WEIGHT 1e290

/* Whether a row may have this weight; otherwise false with a sentence. */
bool tusk_good_weight(double weight, char *sentence);
/* Whether a number can be a class; false with a sentence. argument: what it is. */
bool tusk_is_class(double x, const char *argument, char *sentence);

/* Adds the row; a row of weight 0 changes nothing. */
bool tusk_score_take(tusk_score *s, const tusk_metric *m, const tusk_judged *row, char *sentence);
/* The same, and the row's loss before its weight, unless that is 0. */
bool tusk_score_add(tusk_score *s, const tusk_metric *m, const tusk_judged *row, double *loss,
                    char *sentence);
/* Adds a number to the mean and the spread of those before; the state's n already counts it. */
void tusk_spread_add(tusk_score *s, double y, double weight);
/* Leaves the source unchanged. */
bool tusk_score_merge(tusk_score *target, const tusk_score *source, char *sentence);
/* The metric; NULL if *null is set. */
double tusk_score_give(const tusk_score *s, const tusk_metric *m, bool *null);

/* For labels that must be booleans, 0 and 1, or -1 and +1. */
#define TUSK_CODING "expected a boolean, 0 or 1, or -1 or +1"
#define TUSK_TWO_CODINGS "label holds both 0 and -1, " TUSK_CODING

/* Text has no order that determines the class of a score. */
#define TUSK_NO_POSITIVE \
    "label is text, expected its positive class as the third argument, such as 'yes'"

/* The same for metrics without such an argument. */
#define TUSK_TEXT_AT_K "label is text, " TUSK_CODING ", such as label = 'yes'"

/* Numbers that identify classes must be distinct or are rejected. */
#define TUSK_ROUNDED_CLASS                                                                   \
    "label or predicted has more digits than a double keeps, expected at most 15, or text, " \
    "since others are rounded and would become the same class"

/* Text can only be compared with text. */
#define TUSK_MIXED "one of label and predicted is text, expected both or neither"

#endif
