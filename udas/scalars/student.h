/* Student's t: p-values for databases loaded without the Python package's statistics library, and
 * the width of confidence intervals for all. */
#ifndef TUSK_STUDENT_H
#define TUSK_STUDENT_H

/* The probability of a value at least as far from 0 as t. Infinite freedom means the normal
 * distribution. NaN if t is NaN or freedom is not positive. */
double tusk_two_sided_p(double t, double freedom);
/* The t with the two-sided probability of 0.05: number of standard errors from an estimate to
 * either end of its 95% confidence interval. NaN if freedom is not positive. */
double tusk_t_of_interval(double freedom);
/* The same for a confidence interval of any level between 0 and 1. */
double tusk_t_of_level(double freedom, double level);

#endif
