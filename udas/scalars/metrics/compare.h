/* Two predictions of the same rows: the mean of a metric for each, and the paired difference. */
#ifndef TUSK_COMPARE_H
#define TUSK_COMPARE_H

#include <stddef.h>

#include "metric.h"

/* Contains no pointers. All zero bytes means no rows. */
typedef struct tusk_comparison {
    bool begun;
    enum tusk_metric_kind kind;
    tusk_score a, b, difference; /* the difference has a spread, as labels of r2 */
    int64_t n;                   /* rows that weigh */
} tusk_comparison;

enum tusk_comparison_field {
    TUSK_MEAN_A,
    TUSK_MEAN_B,
    TUSK_DIFFERENCE, /* a - b */
    TUSK_DIFFERENCE_STD_ERR,
    TUSK_DIFFERENCE_LOWER, /* 95% confidence interval */
    TUSK_DIFFERENCE_UPPER,
    TUSK_DIFFERENCE_P, /* of Student's t test that the mean difference is 0 */
    TUSK_COMPARISON_FIELDS
};

/* The names of the columns; the number of rows comes first, a whole number. */
#define TUSK_COMPARISON_ROWS "n"
static const char *const TUSK_COMPARISON_NAMES[TUSK_COMPARISON_FIELDS] = {
    "mean_a", "mean_b", "difference", "std_err", "lower", "upper", "p_value"};

/* Sets the metric by its name, the same for all rows; false with a sentence. */
bool tusk_compare_by(tusk_comparison *c, const char *metric, size_t length, char *sentence);
/* Whether the metric compares classes, which may be text. */
bool tusk_compares_classes(const tusk_comparison *c);
/* Adds a row with both predictions; a row of weight 0 changes nothing. False with a sentence. */
bool tusk_compare_take(tusk_comparison *c, double y, double a, double b, double weight,
                       char *sentence);
/* Leaves the source unchanged. */
bool tusk_compare_merge(tusk_comparison *target, const tusk_comparison *source, char *sentence);
/* The numbers of at least one row, (TUSK_COMPARISON_FIELDS,); NaN where one is unknown. */
void tusk_compare_give(const tusk_comparison *c, double *out);

/* Text can only be compared with text. */
#define TUSK_MIXED_THREE \
    "one of label and predictions is text and another is not, expected all or none"

/* For text where a metric needs numbers. */
#define TUSK_COMPARES_NUMBERS \
    "label or a prediction is text, expected numbers for this metric, such as label = 'yes'"

#endif
