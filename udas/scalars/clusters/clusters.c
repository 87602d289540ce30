#include "clusters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../kvstore/mapped/clones.h"
#include "../models/entries.h"
#include "../models/margins.h"

enum { FEATURES, CENTRES, HAS_UNITS, HEAD };
#define MOST_FEATURES 2147483648.0
#define MOST_CENTRES 10000
#define LANES 8
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

static bool is_count(double x, double least, double most) {
    return x >= least && x <= most && x == (double)(uint64_t)x;
}

bool tusk_centres_of(const tusk_weight *coef, uint64_t n, tusk_centres *out) {
    if (n < HEAD || !is_count(coef[FEATURES], 1, MOST_FEATURES) ||
        !is_count(coef[CENTRES], 1, MOST_CENTRES) || !is_count(coef[HAS_UNITS], 0, 1))
        return false;
    uint64_t d = (uint64_t)coef[FEATURES], k = (uint64_t)coef[CENTRES];
    bool units = coef[HAS_UNITS] == 1;
    *out = (tusk_centres){d, k, units ? coef + HEAD : NULL, coef + HEAD + (units ? d : 0)};
    return n == HEAD + (units ? d : 0) + k * (d + 1);
}

/* The squared distance of numbers a .. b - 1 of a row to those of a centre; x is NULL for zeros.
 */
CLONES static double squared(const double *x, const tusk_weight *c, const tusk_weight *scale,
                             uint64_t a, uint64_t b) {
    lanes sums = {0};
    uint64_t j = a;
    for (; j + LANES <= b; j += LANES) {
        lanes u, v = {0}, s;
        memcpy(&u, c + j, sizeof u);
        if (x)
            memcpy(&v, x + j, sizeof v);
        v -= u;
        if (scale) {
            memcpy(&s, scale + j, sizeof s);
            v *= s;
        }
        sums += v * v;
    }
    double sum = 0;
    for (; j < b; j++) {
        double t = ((x ? x[j] : 0) - c[j]) * (scale ? scale[j] : 1);
        sum += t * t;
    }
    for (int l = 0; l < LANES; l++)
        sum += sums[l];
    return sum;
}

/* The nearest centre so far, and the squared distance to the second one. */
struct nearest {
    double number, distance, second;
};

static const struct nearest NONE = {0, INFINITY, INFINITY};

static void meet(struct nearest *best, uint64_t j, double distance) {
    if (distance < best->distance)
        *best = (struct nearest){(double)(j + 1), distance, best->distance};
    else if (distance < best->second)
        best->second = distance;
}

enum sought { NUMBER, DISTANCE, SILHOUETTE };

static enum sought sought_of(const tusk_scorer *s) {
    return s->measures ? DISTANCE : NUMBER;
}

/* NaN if squared distances exceed doubles, and of a silhouette if there is no second centre. */
static double answer(enum sought sought, struct nearest best) {
    if (!best.number || (sought == SILHOUETTE && isinf(best.second)))
        return NAN;
    if (sought == SILHOUETTE)
        return best.second > 0 ? 1 - sqrt(best.distance / best.second) : 0;
    return sought == DISTANCE ? best.distance : best.number;
}

static bool answer_dense(tusk_scorer *s, enum sought sought, const void *x, bool f64, uint64_t d,
                         uint64_t n, double *out, char *sentence) {
    tusk_centres c;
    if (!tusk_centres_of(s->coef, s->n_coef, &c) || d != c.d) {
        snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, row has %llu",
                 (unsigned long long)s->coef[FEATURES], (unsigned long long)d);
        return false;
    }
    double few[TUSK_FEW_ENTRIES], *row = d > TUSK_FEW_ENTRIES ? malloc(d * sizeof *row) : few;
    if (!row) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    for (uint64_t i = 0; i < n; i++) {
        for (uint64_t j = 0; j < d; j++)
            row[j] = tusk_number_at(x, f64, i * d + j);
        struct nearest best = NONE;
        for (uint64_t j = 0; j < c.k; j++)
            meet(&best, j, squared(row, c.first + j * (d + 1) + 1, c.scale, 0, d));
        out[i] = answer(sought, best);
    }
    if (row != few)
        free(row);
    return true;
}

/* The squared distance of a row to a centre; features unknown to the model contribute 0. */
static double of_entries(const tusk_centres *c, const tusk_weight *centre,
                         const tusk_entry *entries, uint64_t n) {
    double sum = 0;
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t id = (uint64_t)entries[i].id;
        bool known = id < c->d;
        sum += squared(NULL, centre, c->scale, at, known ? id : c->d);
        double t =
            known ? (entries[i].x - centre[id]) * (c->scale ? c->scale[id] : 1) : entries[i].x;
        sum += t * t;
        at = known ? id + 1 : c->d;
    }
    return sum + squared(NULL, centre, c->scale, at, c->d);
}

static bool answer_sparse(tusk_scorer *s, enum sought sought, const tusk_sparse_row *row, bool f64,
                          double *out, char *sentence) {
    tusk_centres c;
    tusk_entry few[TUSK_FEW_ENTRIES];
    uint64_t n = 0;
    if (!tusk_check_ids(row, sentence) || !tusk_centres_of(s->coef, s->n_coef, &c))
        return false;
    tusk_entry *entries = tusk_entries_of(row, f64, few, &n, sentence);
    if (!entries)
        return false;
    struct nearest best = NONE;
    for (uint64_t j = 0; j < c.k; j++)
        meet(&best, j, of_entries(&c, c.first + j * (c.d + 1) + 1, entries, n));
    *out = answer(sought, best);
    if (entries != few)
        free(entries);
    return true;
}

bool tusk_nearest_centres(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                          double *out, char *sentence) {
    return answer_dense(s, sought_of(s), x, f64, d, n, out, sentence);
}

bool tusk_sparse_nearest_centre(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                                char *sentence) {
    return answer_sparse(s, sought_of(s), row, f64, out, sentence);
}

bool tusk_silhouettes(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n, double *out,
                      char *sentence) {
    return answer_dense(s, SILHOUETTE, x, f64, d, n, out, sentence);
}

bool tusk_sparse_silhouette(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                            char *sentence) {
    return answer_sparse(s, SILHOUETTE, row, f64, out, sentence);
}
