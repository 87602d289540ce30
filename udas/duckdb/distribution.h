/* p-values, by the Python package's statistics library where there is one. */
#ifndef TUSK_DISTRIBUTION_H
#define TUSK_DISTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

#define NO_P_VALUES                                                                           \
    "model_summary: the p-values could not be computed: SciPy was interrupted, or cannot be " \
    "imported"

/* Two-sided; NaN where there is none. Infinite freedom is the normal distribution. False when the
 * library was broken off. */
bool two_sided_p(int64_t n, const double *statistic, const double *freedom, double *p);

#endif
