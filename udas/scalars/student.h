/* Student's t, for databases loaded without the Python package's statistics library. */
#ifndef TUSK_STUDENT_H
#define TUSK_STUDENT_H

/* The probability of a value at least as far from 0 as t. Infinite freedom means the normal
 * distribution. NaN if t is NaN or freedom is not positive. */
double tusk_two_sided_p(double t, double freedom);

#endif
