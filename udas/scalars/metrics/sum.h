/* Sums whose rounding hardly depends on the order. */
#ifndef TUSK_SUM_H
#define TUSK_SUM_H

#include <math.h>

/* Neumaier's sum: carry holds the rounding errors of sum. All zero bytes is 0. */
typedef struct tusk_sum {
    double sum, carry;
} tusk_sum;

static inline void tusk_sum_add(tusk_sum *s, double x) {
    double t = s->sum + x;
    s->carry += fabs(s->sum) >= fabs(x) ? (s->sum - t) + x : (x - t) + s->sum;
    s->sum = t;
}

static inline void tusk_sum_merge(tusk_sum *s, const tusk_sum *other) {
    tusk_sum_add(s, other->sum);
    s->carry += other->carry;
}

/* If the sum is infinite, the carry is NaN. */
static inline double tusk_sum_total(const tusk_sum *s) {
    return isfinite(s->sum) ? s->sum + s->carry : s->sum;
}

#endif
