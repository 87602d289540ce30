/* The area under the ROC curve by the Mann-Whitney statistic. */
#include "auc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Negative numbers have all their bits flipped, others the sign only; -0 becomes 0. */
static uint64_t key_of(double x) {
    uint64_t bits;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static bool reserve_keys(tusk_scores *l, int64_t more, tusk_grow room) {
    if (l->n + more <= l->capacity)
        return true;
    int64_t capacity = l->capacity ? 2 * l->capacity : 8;
    if (capacity < l->n + more)
        capacity = l->n + more;
    uint64_t *keys = room.grow(l->keys, (size_t)capacity * sizeof *keys, room.context);
    if (!keys)
        return false;
    l->keys = keys;
    l->capacity = capacity;
    return true;
}

static bool append(tusk_auc *s, double label, const uint64_t *keys, int64_t n, tusk_grow room,
                   char *sentence) {
    tusk_scores *l = s->lists;
    while (l < s->lists + 2 && l->n && l->label != label)
        l++;
    if (l == s->lists + 2) {
        snprintf(sentence, TUSK_SENTENCE,
                 "label takes a third value %g after %g and %g, expected two", label,
                 s->lists[0].label, s->lists[1].label);
        return false;
    }
    if (!reserve_keys(l, n, room)) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    l->label = label;
    memcpy(l->keys + l->n, keys, (size_t)n * sizeof *keys);
    l->n += n;
    return true;
}

bool tusk_auc_take(tusk_auc *s, double y, double score, tusk_grow room, char *sentence) {
    if (isnan(y) || isnan(score)) {
        snprintf(sentence, TUSK_SENTENCE, "%s is NaN, expected a number",
                 isnan(y) ? "label" : "score");
        return false;
    }
    uint64_t key = key_of(score);
    return append(s, y, &key, 1, room, sentence);
}

bool tusk_auc_merge(tusk_auc *target, const tusk_auc *source, tusk_grow room, char *sentence) {
    for (const tusk_scores *l = source->lists; l < source->lists + 2; l++)
        if (l->n && !append(target, l->label, l->keys, l->n, room, sentence))
            return false;
    return true;
}

/* --- the answer --- */

#define RADIX_BITS 11
#define RADIX (1 << RADIX_BITS)
#define PASSES 6      /* of 11 bits: 64 bits */
#define FEW_KEYS 1024 /* below, counting costs more than comparing */

static int compare_keys(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static unsigned digit(uint64_t key, int pass) {
    return key >> (pass * RADIX_BITS) & (RADIX - 1);
}

/* Counts into the place where the keys of each digit begin; false when all keys have one digit. */
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

/* Radix sort from the lowest digit up. Returns where the sorted keys are: keys or other. */
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

/* Twice the Mann-Whitney statistic: for every pair of a positive and a negative row 2 when the
 * positive has the higher score, 1 when they tie. An integer, so exact. */
static uint64_t count_pairs(const uint64_t *positive, int64_t n_positive, const uint64_t *negative,
                            int64_t n_negative) {
    uint64_t twice = 0;
    int64_t below = 0, up_to = 0; /* negatives with a lower score, with a lower or the same one */
    for (int64_t i = 0; i < n_positive; i++) {
        while (below < n_negative && negative[below] < positive[i])
            below++;
        if (up_to < below)
            up_to = below;
        while (up_to < n_negative && negative[up_to] == positive[i])
            up_to++;
        twice += (uint64_t)(below + up_to);
    }
    return twice;
}

bool tusk_auc_known(const tusk_auc *s) {
    return s->lists[1].n > 0;
}

/* Copies of both lists, and room to sort the longer one into. */
size_t tusk_auc_work(const tusk_auc *s) {
    int64_t p = s->lists[0].n, q = s->lists[1].n;
    return (size_t)(p + q + (p > q ? p : q)) * sizeof(uint64_t);
}

double tusk_auc_give(const tusk_auc *s, uint64_t *work, void (*breathe)(void)) {
    bool second = s->lists[1].label > s->lists[0].label;
    const tusk_scores *positive = &s->lists[second], *negative = &s->lists[!second];
    int64_t p = positive->n, q = negative->n;
    uint64_t *spare = work + p + q;
    memcpy(work, positive->keys, (size_t)p * sizeof *work);
    memcpy(work + p, negative->keys, (size_t)q * sizeof *work);
    const uint64_t *sorted = sort_keys(work, spare, p, breathe);
    if (sorted == spare)
        sorted = memcpy(work, spare, (size_t)p * sizeof *work);
    const uint64_t *others = sort_keys(work + p, spare, q, breathe);
    return (double)count_pairs(sorted, p, others, q) / (2.0 * (double)p * (double)q);
}
