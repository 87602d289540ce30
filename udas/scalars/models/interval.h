/* Intervals of predictions: of the mean by the covariance of the coefficients, and of a label by
 * that and the variance of a label, or by the distances of labels from their predictions. */
#ifndef TUSK_INTERVAL_H
#define TUSK_INTERVAL_H

#include "payload.h"

/* The numbers of an interval; NaN where one is unknown. Of a response other than the margin the
 * standard error is by the delta method, and the ends are those of the margin's interval. */
enum tusk_interval_field {
    TUSK_FIT,
    TUSK_FIT_STD_ERR,
    TUSK_LOWER, /* of the confidence interval of the mean */
    TUSK_UPPER,
    TUSK_PREDICTION_LOWER, /* of the interval of a label */
    TUSK_PREDICTION_UPPER,
    TUSK_INTERVAL_FIELDS
};

static const char *const TUSK_INTERVAL_NAMES[TUSK_INTERVAL_FIELDS] = {
    "fit", "std_err", "lower", "upper", "prediction_lower", "prediction_upper"};

/* The number of terms whose triangle has n numbers. */
uint64_t tusk_terms_of(uint64_t n);
/* The covariances of term i with all terms, (terms,), by the rows of the triangle. */
void tusk_covariances_of(const tusk_weight *factor, uint64_t terms, uint64_t i, double *out);

#define TUSK_USUAL_LEVEL 0.95

/* Reads what intervals and calibrated probabilities are computed from into s->spread, and prepares
 * a scorer of intervals for the usual level; false with a sentence if it is damaged. */
bool tusk_read_spread(const tusk_payload_view *v, enum tusk_answer answer, tusk_scorer *s,
                      char *sentence);

/* Sets the level of the next intervals; false with a sentence unless it is between 0 and 1. */
bool tusk_set_level(tusk_scorer *s, double level, char *sentence);

/* The fields of the intervals of n dense rows, (n,) each; like tusk_margins. */
bool tusk_intervals(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                    double *const ends[TUSK_INTERVAL_FIELDS], char *sentence);

/* The interval of a row, (TUSK_INTERVAL_FIELDS,); like tusk_list. */
bool tusk_interval(tusk_scorer *s, const tusk_sparse_row *sparse, const void *x, bool f64,
                   uint64_t d, double *out, char *sentence);

#endif
