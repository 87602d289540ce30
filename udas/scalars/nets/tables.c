#include "tables.h"

enum { FIRST, LEVELS, LENGTH, OF_TABLE };

/* The part before the tables. */
static tusk_net_tables without_tables(const tusk_weight *coef) {
    uint64_t features = (uint64_t)coef[TUSK_NET_FEATURES];
    return (tusk_net_tables){.features = features,
                             .plain = features,
                             .inputs = features,
                             .end = TUSK_NET_HEAD + (uint64_t)coef[TUSK_NET_LAYERS]};
}

bool tusk_net_check_tables(const tusk_weight *coef, uint64_t n, tusk_net_tables *t) {
    *t = without_tables(coef);
    if (coef[TUSK_NET_KIND] < TUSK_NET_EMBEDS)
        return true;
    uint64_t at = t->end, room = n - at, vectors = 0, free_from = 0, embedded = 0;
    if (!room || !tusk_is_count(coef[at], 1, TUSK_NET_MOST) ||
        (room - 1) / OF_TABLE < (uint64_t)coef[at])
        return false;
    t->n = (uint64_t)coef[at];
    t->about = coef + at + 1;
    for (uint64_t i = 0; i < t->n; i++) {
        const tusk_weight *one = t->about + OF_TABLE * i;
        if (!tusk_is_count(one[FIRST], (double)free_from, (double)t->features) ||
            !tusk_is_count(one[LEVELS], 1, (double)t->features - one[FIRST]) ||
            !tusk_is_count(one[LENGTH], 1, TUSK_NET_LONGEST))
            return false;
        free_from = (uint64_t)one[FIRST] + (uint64_t)one[LEVELS];
        t->plain -= (uint64_t)one[LEVELS];
        embedded += (uint64_t)one[LENGTH];
        vectors += (uint64_t)one[LEVELS] * (uint64_t)one[LENGTH];
    }
    t->inputs = t->plain + embedded;
    t->vectors = t->about + OF_TABLE * t->n;
    t->end = at + 1 + OF_TABLE * t->n + vectors;
    return t->end <= n && (double)t->inputs <= TUSK_NET_MOST;
}

tusk_net_tables tusk_net_tables_of(const tusk_weight *coef) {
    tusk_net_tables t;
    tusk_net_check_tables(coef, UINT64_MAX, &t);
    return t;
}

/* A feature's vector, NULL if it is outside of tables; *length: of the vector, *input: the first
 * of its inputs. */
static const tusk_weight *vector_of(const tusk_net_tables *t, uint64_t feature, uint64_t *length,
                                    uint64_t *input) {
    uint64_t before = 0; /* features in tables so far */
    const tusk_weight *vector = t->vectors, *one = t->about;
    *input = t->plain;
    for (uint64_t i = 0; i < t->n; i++, one += OF_TABLE) {
        uint64_t first = (uint64_t)one[FIRST], levels = (uint64_t)one[LEVELS];
        *length = (uint64_t)one[LENGTH];
        if (feature < first)
            break;
        if (feature < first + levels)
            return vector + (feature - first) * *length;
        before += levels;
        *input += *length;
        vector += levels * *length;
    }
    *input = feature - before;
    return NULL;
}

void tusk_net_put(const tusk_net_tables *t, uint64_t feature, double value, double *inputs,
                  uint64_t apart) {
    uint64_t input, length;
    const tusk_weight *vector = vector_of(t, feature, &length, &input);
    if (!vector)
        inputs[input * apart] += value;
    for (uint64_t k = 0; vector && value != 0 && k < length; k++)
        inputs[(input + k) * apart] += value * vector[k];
}

double tusk_net_product(const tusk_net_tables *t, uint64_t feature, const double *inputs) {
    uint64_t input, length;
    const tusk_weight *vector = vector_of(t, feature, &length, &input);
    if (!vector)
        return inputs[input];
    double sum = 0;
    for (uint64_t k = 0; k < length; k++)
        sum += vector[k] * inputs[input + k];
    return sum;
}
