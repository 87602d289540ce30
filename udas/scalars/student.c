#include "student.h"

#include <math.h>

#define MOST_TERMS 20000
/* From this number of degrees of freedom on, Hill's series is more accurate than the continued
 * fraction. */
#define NEARLY_NORMAL 5000
#define TINY 1e-300
#define USUAL 0.95 /* level of a confidence interval */
#define NORMAL_T 1.9599639845400542
#define MOST_STEPS 200
#define FURTHEST 0.5 /* of a step of log t, since p is 0 far from 0 */
#define SETTLED 1e-14

/* log B(a, 1/2). For large a it uses the series of log gamma(a + 1/2) - log gamma(a), whose
 * terms do not cancel (Abramowitz and Stegun 6.1.47). */
static double log_beta_half(double a) {
    if (a < 20)
        return lgamma(a) + log(M_PI) / 2 - lgamma(a + 0.5);
    double b = 1 / (a * a);
    double series = (-1.0 / 8 + b * (1.0 / 192 + b * (-1.0 / 640 + b * (17.0 / 14336)))) / a;
    return log(M_PI) / 2 - (log(a) / 2 + series);
}

static double away_from_zero(double x) {
    return fabs(x) < TINY ? TINY : x;
}

/* Evaluates the continued fraction of the incomplete beta function by Lentz's method (Press et
 * al., Numerical Recipes, section 6.4). */
static double fraction(double x, double a, double b) {
    double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), h = d;
    for (int m = 1; m <= MOST_TERMS; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1 / away_from_zero(1 + even * d);
        c = away_from_zero(1 + even / c);
        h *= c * d;
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / away_from_zero(1 + odd * d);
        c = away_from_zero(1 + odd / c);
        h *= c * d;
        if (fabs(c * d - 1) < 1e-16)
            break;
    }
    return h;
}

/* The normal deviate with the same tail probability as t (Hill, Algorithm 395, Communications
 * of the ACM, 1970). */
static double normal_deviate(double t, double freedom) {
    double a = freedom - 0.5, b = 48 * a * a, y = a * log1p(t / freedom * t);
    double terms = (((-0.4 * y - 3.3) * y - 24) * y - 85.5) / (0.8 * y * y + 100 + b) + y + 3;
    return (terms / b + 1) * sqrt(y);
}

/* p = I(freedom / 2, 1 / 2) at x = freedom / (freedom + t^2) (Abramowitz and Stegun 26.7.1). */
double tusk_two_sided_p(double t, double freedom) {
    if (t != t || !(freedom > 0))
        return NAN;
    t = fabs(t);
    if (isinf(freedom))
        return erfc(t / M_SQRT2);
    if (isinf(t))
        return 0;
    if (freedom >= NEARLY_NORMAL)
        return erfc(normal_deviate(t, freedom) / M_SQRT2);
    double a = freedom / 2, ratio = t / freedom * t; /* (1 - x) / x */
    double log_x = -log1p(ratio), y = ratio / (1 + ratio);
    if (isinf(ratio))
        return exp(a * (log(freedom) - 2 * log(t)) - log_beta_half(a)) / a;
    double front = exp(a * log_x + log(y) / 2 - log_beta_half(a));
    double x = 1 / (1 + ratio);
    if (!t)
        return 1;
    return x < (a + 1) / (a + 2.5) ? front * fraction(x, a, 0.5) / a
                                   : 1 - 2 * front * fraction(y, 0.5, a);
}

static double log_density(double t, double freedom) {
    if (isinf(freedom))
        return -t / 2 * t - log(2 * M_PI) / 2;
    double scale = log_beta_half(freedom / 2) + log(freedom) / 2;
    return -(freedom + 1) / 2 * log1p(t / freedom * t) - scale;
}

double tusk_t_of_interval(double freedom) {
    return tusk_t_of_level(freedom, USUAL);
}

/* Newton's method on log p as a function of log t. That falls and is concave, so from the second
 * step on all steps come from the right and none goes too far. */
double tusk_t_of_level(double freedom, double level) {
    if (!(freedom > 0) || !(level > 0 && level < 1))
        return NAN;
    if (isinf(freedom) && level == USUAL)
        return NORMAL_T;
    double log_t = log(NORMAL_T), outside = 1 - level;
    for (int i = 0; i < MOST_STEPS; i++) {
        double t = exp(log_t), p = tusk_two_sided_p(t, freedom);
        double step = log(p / outside) * p / (2 * exp(log_density(t, freedom) + log_t));
        step = step > FURTHEST ? FURTHEST : step;
        log_t += step;
        if (!(fabs(step) > SETTLED))
            break;
    }
    return exp(log_t);
}
