/* Interpretation of exp of a coefficient: an odds ratio, or a ratio of means. */
#ifndef TUSK_RATIO_H
#define TUSK_RATIO_H

#include "models/score.h"

/* exp(estimate) for the tasks whose link is a logarithm: odds ratios of 'logistic', ratios of
 * rates or means of tasks such as 'poisson' (McCullagh and Nelder, Generalized linear models,
 * 1989, 4.3 and 6.2). NaN for other tasks, and for those whose coefficients have no test. */
double tusk_ratio(tusk_text task, double estimate);

#endif
