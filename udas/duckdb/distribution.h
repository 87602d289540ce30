/* p-values, by the Python package's statistics library where there is one. */
#ifndef TUSK_DISTRIBUTION_H
#define TUSK_DISTRIBUTION_H

#include <stdint.h>

/* Two-sided; NaN where there is none. Infinite freedom is the normal distribution. */
void two_sided_p(int64_t n, const double *statistic, const double *freedom, double *p);

#endif
