/* Scores by label: stores, merges and ranks them. */
#include "scored.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metric.h"
#include "sum.h"

uint64_t tusk_key_of(double x) {
    uint64_t bits;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

double tusk_of_key(uint64_t key) {
    uint64_t bits = key >> 63 ? key ^ UINT64_C(1) << 63 : ~key;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static const tusk_ranking RANKINGS[TUSK_RANKINGS] = {
    [TUSK_AUC] = {"auc"},
    [TUSK_AVERAGE_PRECISION] = {"average_precision", .coded = true},
    [TUSK_ROC_CURVE] = {"roc_curve"},
    [TUSK_PRECISION_RECALL] = {"precision_recall_curve", .coded = true},
    [TUSK_CALIBRATION] = {"calibration", .coded = true, .bins = true},
    [TUSK_LIFT] = {"lift", .coded = true},
    [TUSK_NDCG] = {"ndcg", .at_k = true, .graded = true},
    [TUSK_PRECISION_AT_K] = {"precision_at_k", .coded = true, .at_k = true},
    [TUSK_RECALL_AT_K] = {"recall_at_k", .coded = true, .at_k = true},
    [TUSK_AVERAGE_PRECISION_AT_K] = {"average_precision_at_k", .coded = true, .at_k = true},
    [TUSK_KS] = {"ks"},
    [TUSK_PSI] = {"psi"},
};

const tusk_ranking *tusk_ranking_of(enum tusk_ranking_kind kind) {
    return &RANKINGS[kind];
}

static bool reserve_rows(tusk_scores *l, int64_t more, bool weighted, tusk_grow room) {
    if (l->n + more <= l->capacity)
        return true;
    int64_t capacity = l->capacity ? 2 * l->capacity : 8;
    if (capacity < l->n + more)
        capacity = l->n + more;
    uint64_t *keys = room.grow(l->keys, (size_t)capacity * sizeof *keys, room.context);
    if (!keys)
        return false;
    l->keys = keys;
    if (weighted) {
        double *weights = room.grow(l->weights, (size_t)capacity * sizeof *weights, room.context);
        if (!weights)
            return false;
        l->weights = weights;
    }
    l->capacity = capacity;
    return true;
}

/* The list for the label; for a third label, NULL and a sentence. */
static tusk_scores *list_of(tusk_scored *s, double label, char *sentence) {
    for (tusk_scores *l = s->lists; l < s->lists + 2; l++)
        if (!l->n || l->label == label)
            return l;
    snprintf(sentence, TUSK_SENTENCE, "label takes a third value %g after %g and %g, expected two",
             label, s->lists[0].label, s->lists[1].label);
    return NULL;
}

/* The list for the label, with room for n more rows; NULL with a sentence if it is refused. */
static tusk_scores *list_for(tusk_scored *s, double label, int64_t n, tusk_grow room,
                             char *sentence) {
    tusk_scores *l = list_of(s, label, sentence);
    if (!l)
        return NULL;
    if (!reserve_rows(l, n, s->weighted, room)) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return NULL;
    }
    l->label = label;
    return l;
}

static bool append(tusk_scored *s, const tusk_scores *rows, tusk_grow room, char *sentence) {
    tusk_scores *l = list_for(s, rows->label, rows->n, room, sentence);
    if (!l)
        return false;
    memcpy(l->keys + l->n, rows->keys, (size_t)rows->n * sizeof *l->keys);
    if (s->weighted)
        memcpy(l->weights + l->n, rows->weights, (size_t)rows->n * sizeof *l->weights);
    l->n += rows->n;
    return true;
}

static bool good_number(const char *name, double x, char *sentence) {
    if (!isnan(x))
        return true;
    snprintf(sentence, TUSK_SENTENCE, "%s is NaN, expected a number", name);
    return false;
}

static bool coded(const tusk_scored *s, double y, char *sentence) {
    if (y != 1 && y != 0 && y != -1) {
        snprintf(sentence, TUSK_SENTENCE, "label is %g, " TUSK_CODING, y);
        return false;
    }
    for (const tusk_scores *l = s->lists; l < s->lists + 2; l++)
        if (l->n && l->label != y && l->label + y == -1) {
            snprintf(sentence, TUSK_SENTENCE, TUSK_TWO_CODINGS);
            return false;
        }
    return true;
}

static bool same_bins(tusk_scored *s, const char *name, int64_t bins, char *sentence) {
    if (!s->bins)
        s->bins = bins;
    if (s->bins == bins)
        return true;
    snprintf(sentence, TUSK_SENTENCE,
             "%s is both %lld and %lld, expected one number for all rows of a group", name,
             (long long)s->bins, (long long)bins);
    return false;
}

/* A curve of probabilities has bins. */
static bool take_bins(tusk_scored *s, double p, int64_t bins, char *sentence) {
    if (!(p >= 0 && p <= 1)) {
        snprintf(sentence, TUSK_SENTENCE, "p is %g, expected a probability between 0 and 1", p);
        return false;
    }
    if (bins < 1 || bins > TUSK_MOST_BINS) {
        snprintf(sentence, TUSK_SENTENCE, "bins is %lld, expected 1 to %d", (long long)bins,
                 TUSK_MOST_BINS);
        return false;
    }
    return same_bins(s, "bins", bins, sentence);
}

static bool take_k(tusk_scored *s, int64_t k, char *sentence) {
    if (k >= 1)
        return same_bins(s, "k", k, sentence);
    snprintf(sentence, TUSK_SENTENCE, "k is %lld, expected a number from 1 on", (long long)k);
    return false;
}

/* Adds a row whose label is a gain. */
static bool take_gain(tusk_scored *s, const tusk_ranked *row, tusk_grow room, char *sentence) {
    if (!(row->y >= 0 && isfinite(row->y))) {
        snprintf(sentence, TUSK_SENTENCE, "label is %g, expected a number of at least 0", row->y);
        return false;
    }
    s->weighted = true;
    tusk_scores *l = list_for(s, 1, 1, room, sentence);
    if (!l)
        return false;
    l->keys[l->n] = tusk_key_of(row->score);
    l->weights[l->n++] = row->y;
    return true;
}

bool tusk_scored_take(tusk_scored *s, const tusk_ranking *r, const tusk_ranked *row,
                      tusk_grow room, char *sentence) {
    if (!tusk_good_weight(row->weight, sentence))
        return false;
    if (row->weight == 0)
        return true;
    if ((r->bins && !take_bins(s, row->score, row->bins, sentence)) ||
        (r->at_k && !take_k(s, row->bins, sentence)))
        return false;
    if (!good_number("label", row->y, sentence) || !good_number("score", row->score, sentence) ||
        (r->coded && !coded(s, row->y, sentence)) ||
        (!r->graded && !tusk_is_class(row->y, "label", sentence)))
        return false;
    if (r->graded)
        return take_gain(s, row, room, sentence);
    tusk_scores *l = list_for(s, row->y, 1, room, sentence);
    if (!l)
        return false;
    l->keys[l->n] = tusk_key_of(row->score);
    if (s->weighted)
        l->weights[l->n] = row->weight;
    l->n++;
    return true;
}

bool tusk_scored_merge(tusk_scored *target, const tusk_scored *source, const tusk_ranking *r,
                       tusk_grow room, char *sentence) {
    const char *name = r->at_k ? "k" : "bins";
    if (source->bins && !same_bins(target, name, source->bins, sentence))
        return false;
    target->weighted |= source->weighted;
    for (const tusk_scores *l = source->lists; l < source->lists + 2; l++)
        if (l->n && ((r->coded && !coded(target, l->label, sentence)) ||
                     !append(target, l, room, sentence)))
            return false;
    return true;
}

/* --- ranks --- */

#define RADIX_BITS 11
#define RADIX (1 << RADIX_BITS)
#define PASSES 6      /* of 11 bits: 64 bits */
#define FEW_KEYS 1024 /* with fewer keys, counting costs more than comparing */

static int compare_keys(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static unsigned digit(uint64_t key, int pass) {
    return key >> (pass * RADIX_BITS) & (RADIX - 1);
}

/* Turns counts into the positions where each digit's keys begin; false if all keys have the
 * same digit. */
static bool place_digits(int64_t *count, int64_t n) {
    int64_t at = 0;
    for (int d = 0; d < RADIX; d++) {
        int64_t c = count[d];
        if (c == n)
            return false;
        count[d] = at;
        at += c;
    }
    return true;
}

/* Radix sort from the lowest digit up. Returns the array that holds the sorted keys: keys or
 * other. */
static uint64_t *sort_keys(uint64_t *keys, uint64_t *other, int64_t n, void (*breathe)(void)) {
    if (n < FEW_KEYS) {
        qsort(keys, (size_t)n, sizeof *keys, compare_keys);
        return keys;
    }
    int64_t count[PASSES][RADIX] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int p = 0; p < PASSES; p++)
            count[p][digit(keys[i], p)]++;
    for (int p = 0; p < PASSES; p++) {
        if (breathe)
            breathe();
        if (!place_digits(count[p], n))
            continue;
        for (int64_t i = 0; i < n; i++)
            other[count[p][digit(keys[i], p)]++] = keys[i];
        uint64_t *sorted = other;
        other = keys;
        keys = sorted;
    }
    return keys;
}

/* --- ranks of rows with weights --- */

typedef struct weighed {
    uint64_t key;
    double weight;
} weighed;

/* By key, then by weight, so that sums do not depend on the order of rows. */
static int compare_weighed(const void *a, const void *b) {
    const weighed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->weight > y->weight) - (x->weight < y->weight);
}

/* Location of a list's sorted keys and weights in the work memory. */
typedef struct room_of {
    uint64_t *keys;
    double *weights, *top;
} room_of;

static room_of place_at(uint64_t *work, int64_t n, bool weighted) {
    double *after = (double *)(work + n);
    return (room_of){work, weighted ? after : NULL, weighted ? after + n : NULL};
}

/* The numbers of 8 bytes that a list's ranks take. */
static int64_t size_of(int64_t n, bool weighted) {
    return weighted ? 3 * n + 1 : n;
}

static void rank_weighed(const tusk_scores *l, room_of to, weighed *spare) {
    for (int64_t i = 0; i < l->n; i++)
        spare[i] = (weighed){l->keys[i], l->weights[i]};
    qsort(spare, (size_t)l->n, sizeof *spare, compare_weighed);
    for (int64_t i = 0; i < l->n; i++) {
        to.keys[i] = spare[i].key;
        to.weights[i] = spare[i].weight;
    }
    tusk_sum sum = {0};
    to.top[0] = 0;
    for (int64_t c = 1; c <= l->n; c++) {
        tusk_sum_add(&sum, to.weights[l->n - c]);
        to.top[c] = tusk_sum_total(&sum);
    }
}

/* --- ranks --- */

/* Memory for copies of both lists, and for sorting the longer one. */
size_t tusk_scored_work(const tusk_scored *s) {
    int64_t p = s->lists[0].n, q = s->lists[1].n, longer = p > q ? p : q;
    int64_t spare = s->weighted ? 2 * longer : longer;
    return (size_t)(size_of(p, s->weighted) + size_of(q, s->weighted) + spare) * sizeof(uint64_t);
}

/* Sorts a copy of the list, made at `to`. */
static tusk_side rank(const tusk_scores *l, room_of to, uint64_t *spare, void (*breathe)(void)) {
    size_t bytes = (size_t)l->n * sizeof *to.keys;
    if (to.weights) {
        rank_weighed(l, to, (weighed *)spare);
    } else if (l->n) {
        memcpy(to.keys, l->keys, bytes);
        if (sort_keys(to.keys, spare, l->n, breathe) == spare)
            memcpy(to.keys, spare, bytes);
    }
    return (tusk_side){to.keys, to.weights, to.top, l->n};
}

/* If there is only one label, its sign decides whether it is positive. */
static bool second_is_positive(const tusk_scored *s) {
    return s->lists[1].n ? s->lists[1].label > s->lists[0].label : s->lists[0].label <= 0;
}

tusk_ranks tusk_rank(const tusk_scored *s, uint64_t *work, void (*breathe)(void)) {
    bool second = second_is_positive(s);
    const tusk_scores *positive = &s->lists[second], *negative = &s->lists[!second];
    int64_t p = positive->n, q = negative->n;
    uint64_t *after = work + size_of(p, s->weighted), *spare = after + size_of(q, s->weighted);
    return (tusk_ranks){rank(positive, place_at(work, p, s->weighted), spare, breathe),
                        rank(negative, place_at(after, q, s->weighted), spare, breathe)};
}
