/* p-values, from the Python package's statistics library if there is one. */
#ifndef TUSK_DISTRIBUTION_H
#define TUSK_DISTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

#define NO_P_VALUES                                                                           \
    "model_summary: the p-values could not be computed: SciPy was interrupted, or cannot be " \
    "imported"

/* Two-sided p-values; NaN where a p-value is undefined. Infinite freedom means the normal
 * distribution. Returns false if the library was interrupted. */
bool two_sided_p(int64_t n, const double *statistic, const double *freedom, double *p);

#endif
