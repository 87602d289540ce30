/* The best items are kept in a heap whose first is the worst of them. */
#include "recommend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../models/margins.h"

#define BREATHE 4096 /* vectors between two calls of breathe */

const char *const TUSK_BASIS_NAMES[TUSK_BASES] = {"user", "biases of items", "mean of users",
                                                  "item"};

/* The work memory: which items are excluded, the vector to compare with, and one from a store. */
typedef struct room {
    double *to, *read;
    uint64_t *excluded;
    double base; /* of each score, besides the product of the vectors */
    bool known;  /* whether the user or the item is in the model */
} room;

static uint64_t words_of(const tusk_scorer *s) {
    return (s->factors.n_items + 63) / 64;
}

size_t tusk_recommend_work(const tusk_scorer *s) {
    return (2 * s->factors.width + words_of(s)) * sizeof(double);
}

uint64_t tusk_most_items(const tusk_scorer *s, const tusk_wanted *w) {
    return w->n > 0 && (uint64_t)w->n < s->factors.n_items ? (uint64_t)w->n : s->factors.n_items;
}

static bool check(const tusk_scorer *s, const tusk_wanted *w, char *sentence) {
    if (s->task != TUSK_FACTORIZATION) {
        snprintf(sentence, TUSK_SENTENCE,
                 "the model has no users and items, expected one of 'matrix_factorization'");
        return false;
    }
    if (!(w->id >= 0 && isfinite(w->id) && w->id == floor(w->id))) {
        snprintf(sentence, TUSK_SENTENCE, "%s is %.17g, expected an integer id from 0 on",
                 w->similar ? "item" : "user", w->id);
        return false;
    }
    if (w->n < 1) {
        snprintf(sentence, TUSK_SENTENCE, "n is %lld, expected a number from 1 on",
                 (long long)w->n);
        return false;
    }
    return true;
}

/* --- the vector to compare with --- */

static bool is_zero(const tusk_weight *v, uint64_t n) {
    for (uint64_t k = 0; k < n; k++)
        if (v[k] != 0)
            return false;
    return true;
}

/* Sums that do not depend on the compiler's choice of instructions. */
static double dot(const double *a, const tusk_weight *b, uint64_t n) {
    double sum[4] = {0, 0, 0, 0};
    uint64_t k = 0;
    for (; k + 4 <= n; k += 4)
        for (int i = 0; i < 4; i++)
            sum[i] += a[k + i] * b[k + i];
    for (; k < n; k++)
        sum[0] += a[k] * b[k];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Copies the vector of an id, if it is in the model. */
static bool copy_vector(tusk_scorer *s, const tusk_wanted *w, room *r, char *sentence) {
    const tusk_factors *f = &s->factors;
    uint64_t first = w->similar ? f->n_users : 0, count = w->similar ? f->n_items : f->n_users;
    r->known = w->id < (double)count;
    if (!r->known)
        return true;
    const tusk_weight *v = tusk_factor_vector(s, first + (uint64_t)w->id, r->read, sentence);
    if (!v)
        return false;
    r->known = !is_zero(v, f->width);
    memcpy(r->to, v, f->width * sizeof *r->to);
    return true;
}

/* The mean of the vectors of the users who are in the model. */
static bool average_users(tusk_scorer *s, room *r, void (*breathe)(void), char *sentence) {
    uint64_t width = s->factors.width, users = 0;
    memset(r->to, 0, width * sizeof *r->to);
    for (uint64_t u = 0; u < s->factors.n_users; u++) {
        if (breathe && u % BREATHE == 0)
            breathe();
        const tusk_weight *v = tusk_factor_vector(s, u, r->read, sentence);
        if (!v)
            return false;
        users += !is_zero(v, width);
        for (uint64_t k = 0; k < width; k++)
            r->to[k] += v[k];
    }
    for (uint64_t k = 0; users && k < width; k++)
        r->to[k] /= (double)users;
    return true;
}

/* Sets r->to so that a score is r->to times an item's vector, plus r->base. */
static bool prepare(tusk_scorer *s, const tusk_wanted *w, room *r, tusk_best *best,
                    char *sentence) {
    const tusk_factors *f = &s->factors;
    best->basis = w->similar ? TUSK_OF_ITEM : TUSK_OF_USER;
    if (!copy_vector(s, w, r, sentence))
        return false;
    if (w->similar) {
        if (r->known && f->biases)
            r->to[0] = 0;
        return true;
    }
    if (!r->known && !f->biases) {
        best->basis = TUSK_OF_MEAN;
        return average_users(s, r, best->breathe, sentence);
    }
    if (!r->known) {
        best->basis = TUSK_OF_BIASES;
        memset(r->to, 0, f->width * sizeof *r->to);
    }
    r->base = s->intercept + (f->biases ? r->to[0] : 0);
    if (f->biases)
        r->to[0] = 1;
    return true;
}

/* --- the best items --- */

/* Whether a comes before b in a result. */
static bool better(tusk_ranked_item a, tusk_ranked_item b) {
    return a.score != b.score ? a.score > b.score : a.item < b.item;
}

static void sift_down(tusk_ranked_item *heap, uint64_t n, uint64_t at) {
    for (uint64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && better(heap[child], heap[child + 1]))
            child++;
        if (!better(heap[at], heap[child]))
            return;
        tusk_ranked_item moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static void sift_up(tusk_ranked_item *heap, uint64_t at) {
    for (uint64_t parent; at && better(heap[parent = (at - 1) / 2], heap[at]); at = parent) {
        tusk_ranked_item moved = heap[at];
        heap[at] = heap[parent];
        heap[parent] = moved;
    }
}

static void offer(tusk_ranked_item *heap, uint64_t *n, uint64_t most, tusk_ranked_item one) {
    if (*n < most) {
        heap[*n] = one;
        sift_up(heap, (*n)++);
    } else if (better(one, heap[0])) {
        heap[0] = one;
        sift_down(heap, *n, 0);
    }
}

static int compare(const void *a, const void *b) {
    return better(*(const tusk_ranked_item *)b, *(const tusk_ranked_item *)a) -
           better(*(const tusk_ranked_item *)a, *(const tusk_ranked_item *)b);
}

static void mark_excluded(const tusk_scorer *s, const tusk_wanted *w, uint64_t *excluded) {
    memset(excluded, 0, words_of(s) * sizeof *excluded);
    for (uint64_t i = 0; i <= w->n_exclude; i++) {
        double id = i < w->n_exclude ? w->exclude[i] : w->similar ? w->id : -1;
        if (id >= 0 && id < (double)s->factors.n_items && id == floor(id))
            excluded[(uint64_t)id / 64] |= UINT64_C(1) << ((uint64_t)id % 64);
    }
}

/* The score of an item with this vector. */
static double score_of(const tusk_scorer *s, const tusk_wanted *w, const room *r, double length,
                       const tusk_weight *v) {
    uint64_t from = w->similar && s->factors.biases, n = s->factors.width - from;
    double product = dot(r->to + from, v + from, n);
    if (!w->similar)
        return r->base + product;
    double squares = 0;
    for (uint64_t k = from; k < s->factors.width; k++)
        squares += v[k] * v[k];
    return squares > 0 && length > 0 ? product / (length * sqrt(squares)) : 0;
}

static bool rank_items(tusk_scorer *s, const tusk_wanted *w, const room *r, tusk_best *best,
                       char *sentence) {
    const tusk_factors *f = &s->factors;
    uint64_t most = tusk_most_items(s, w);
    double length = sqrt(dot(r->to, r->to, f->width));
    mark_excluded(s, w, r->excluded);
    for (uint64_t i = 0; i < f->n_items; i++) {
        if (best->breathe && i % BREATHE == 0)
            best->breathe();
        if (r->excluded[i / 64] >> (i % 64) & 1)
            continue;
        const tusk_weight *v = tusk_factor_vector(s, f->n_users + i, r->read, sentence);
        if (!v)
            return false;
        if (!is_zero(v, f->width))
            offer(best->items, &best->n, most,
                  (tusk_ranked_item){i, score_of(s, w, r, length, v)});
    }
    qsort(best->items, best->n, sizeof *best->items, compare);
    return true;
}

bool tusk_recommend(tusk_scorer *s, const tusk_wanted *w, tusk_best *best, char *sentence) {
    room r = {.to = best->work};
    r.read = r.to + s->factors.width;
    r.excluded = (uint64_t *)(r.read + s->factors.width);
    best->n = 0;
    if (!check(s, w, sentence))
        return false;
    if (s->null)
        return true;
    if (!prepare(s, w, &r, best, sentence))
        return false;
    return (w->similar && !r.known) || rank_items(s, w, &r, best, sentence);
}
