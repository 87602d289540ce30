/* Predictions of models of ordered levels: P(y <= k) = G(t_k - m) with a margin m = w.x and rising
 * thresholds t, G the logistic, the normal or the complementary log-log distribution function. */
#include <math.h>
#include <stdio.h>

#include "margins.h"

/* G(b) - G(a), a < b, as a product or in the nearer tail: no digits are lost far out. */
static double share_between(enum tusk_response link, double a, double b) {
    if (link == TUSK_NORMAL_SHARE) {
        double low = a, high = b;
        if (a + b > 0) {
            low = -b;
            high = -a;
        }
        return 0.5 * (erfc(-high * 0.70710678118654752440) - erfc(-low * 0.70710678118654752440));
    }
    double between = -expm1(a - b);
    if (link == TUSK_CLOGLOG_SHARE)
        return exp(-exp(a)) * (isinf(b) ? 1 : -expm1(-exp(b) * between));
    return between / ((1 + exp(-b)) * (1 + exp(a)));
}

static double share_of_level(const tusk_scorer *s, uint64_t k, double m) {
    double low = k ? s->cuts[k - 1] - m : -INFINITY;
    double high = k + 1 < s->n_classes ? s->cuts[k] - m : INFINITY;
    return m != m ? m : share_between(s->response, low, high);
}

void tusk_shares_of_levels(const tusk_scorer *s, double m, double *out) {
    for (uint64_t k = 0; k < s->n_classes; k++)
        out[k] = share_of_level(s, k, m);
}

double tusk_share_of_highest(const tusk_scorer *s, double m) {
    return share_of_level(s, s->n_classes - 1, m);
}

double tusk_likeliest_level(const tusk_scorer *s, double m) {
    uint64_t best = 0;
    double most = -1;
    for (uint64_t k = 0; k < s->n_classes; k++) {
        double share = share_of_level(s, k, m);
        if (share > most) {
            most = share;
            best = k;
        }
    }
    return m != m ? m : s->places ? (double)(best + 1) : s->labels[best];
}

bool tusk_check_levels(const tusk_weight *coef, uint64_t n, uint64_t levels, char *sentence) {
    bool rising = n >= levels;
    for (uint64_t k = 1; rising && k + 1 < levels; k++)
        rising = coef[k - 1] < coef[k];
    if (rising)
        return true;
    snprintf(sentence, TUSK_SENTENCE,
             "the coefficients of the model do not begin with the rising thresholds of its %llu "
             "levels",
             (unsigned long long)levels);
    return false;
}
