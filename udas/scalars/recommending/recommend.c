/* The best items are kept in a heap whose first is the worst of them. */
#include "recommend.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../models/margins.h"
#include "../models/quoted.h"
#include "../named/preparation.h"

#define BREATHE 4096 /* vectors between two calls of breathe */

const char *const TUSK_BASIS_NAMES[TUSK_BASES] = {"user", "biases of items", "mean of users",
                                                  "item", "ratings"};

/* The work memory: which items are excluded, the vector to compare with, and one from a store. */
typedef struct room {
    double *to, *read;
    uint64_t *excluded;
    double *fold;
    uint64_t id; /* of the vector to compare with, among those of its kind */
    double base; /* of each score, besides the product of the vectors */
    bool known;  /* whether the user or the item is in the model */
} room;

static uint64_t words_of(const tusk_scorer *s) {
    return (s->factors.n_items + 63) / 64;
}

size_t tusk_recommend_work(const tusk_scorer *s, const tusk_wanted *w) {
    size_t fold = w->asked == TUSK_FOR_RATINGS ? tusk_fold_work(s) : 0;
    return (2 * s->factors.width + words_of(s) + fold) * sizeof(double);
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
    if (w->n < 1) {
        snprintf(sentence, TUSK_SENTENCE, "n is %lld, expected a number from 1 on",
                 (long long)w->n);
        return false;
    }
    return true;
}

/* --- ids --- */

/* The column of users or items in a model whose rows had names. False: ids are numbers from 0 on.
 */
static bool names_of(const tusk_scorer *s, bool item, tusk_preparation_column *c) {
    tusk_preparation_head head;
    if (!s->preparation.length || !tusk_preparation_open(s->preparation, &head) ||
        head.n_columns != 2)
        return false;
    *c = tusk_preparation_at(s->preparation, item);
    return c->becomes == TUSK_AS_LEVELS;
}

/* A number in a text that is nothing else. */
static bool read_number(tusk_text text, double *number) {
    char digits[64], *end;
    if (!text.length || text.length >= sizeof digits)
        return false;
    memcpy(digits, text.data, text.length);
    digits[text.length] = 0;
    *number = strtod(digits, &end);
    return !*end;
}

static bool has_digits_only(tusk_text text) {
    for (size_t i = *text.data == '-'; i < text.length; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return true;
}

bool tusk_place_of(const tusk_scorer *s, bool item, tusk_text id, uint64_t *place,
                   char *sentence) {
    uint64_t count = item ? s->factors.n_items : s->factors.n_users;
    tusk_preparation_column c;
    double number;
    if (names_of(s, item, &c)) {
        char digits[TUSK_NUMBER_TEXT];
        bool whole = c.of_numbers && read_number(id, &number);
        if (whole && fabs(number) < 0x1p53)
            id = (tusk_text){digits, tusk_number_text(number + 0.0, digits)};
        else if (whole && !has_digits_only(id)) {
            snprintf(sentence, TUSK_SENTENCE,
                     "%s is %.*s, whose type rounds ids of 2^53 and more, expected BIGINT or the "
                     "id as text",
                     item ? "item" : "user", tusk_quoted(id.data, id.length, 60), id.data);
            return false;
        }
        uint32_t level = tusk_level_of(s->preparation, &c, id);
        *place = level < c.n_levels ? level : count;
        return true;
    }
    if (!read_number(id, &number) ||
        !(number >= 0 && isfinite(number) && number == floor(number))) {
        snprintf(sentence, TUSK_SENTENCE, "%s is %.*s, expected an integer id from 0 on",
                 item ? "item" : "user", tusk_quoted(id.data, id.length, 60), id.data);
        return false;
    }
    *place = number < (double)count ? (uint64_t)number : count;
    return true;
}

tusk_text tusk_item_text(const tusk_scorer *s, uint64_t item, char room[TUSK_ID_TEXT]) {
    tusk_preparation_column c;
    if (names_of(s, true, &c) && item < c.n_levels) {
        const tusk_u32 *ends = (const tusk_u32 *)(s->preparation.data + c.ends);
        uint32_t begin = item ? ends[item - 1] : 0, end = ends[item];
        if (begin <= end && c.text + (uint64_t)end <= s->preparation.length)
            return (tusk_text){s->preparation.data + c.text + begin, end - begin};
    }
    return (tusk_text){room,
                       (size_t)snprintf(room, TUSK_ID_TEXT, "%llu", (unsigned long long)item)};
}

bool tusk_item_number(const tusk_scorer *s, uint64_t item, int64_t *number) {
    char room[TUSK_ID_TEXT], digits[TUSK_ID_TEXT], *end;
    tusk_text text = tusk_item_text(s, item, room);
    if (!text.length || text.length >= sizeof digits)
        return false;
    memcpy(digits, text.data, text.length);
    digits[text.length] = 0;
    errno = 0;
    *number = strtoll(digits, &end, 10);
    return !*end && !errno && (*digits == '-' || (*digits >= '0' && *digits <= '9'));
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
    bool similar = w->asked == TUSK_FOR_ITEM;
    uint64_t first = similar ? f->n_users : 0, count = similar ? f->n_items : f->n_users;
    if (!tusk_place_of(s, similar, w->id, &r->id, sentence))
        return false;
    r->known = r->id < count;
    if (!r->known)
        return true;
    const tusk_weight *v = tusk_factor_vector(s, first + r->id, r->read, sentence);
    if (!v)
        return false;
    r->known = !is_zero(v, f->width);
    memcpy(r->to, v, f->width * sizeof *r->to);
    return true;
}

/* Sets r->to so that a score is r->to times an item's vector, plus r->base. */
static bool prepare(tusk_scorer *s, const tusk_wanted *w, room *r, tusk_best *best,
                    char *sentence) {
    const tusk_factors *f = &s->factors;
    best->basis = w->asked == TUSK_FOR_ITEM   ? TUSK_OF_ITEM
                  : w->asked == TUSK_FOR_USER ? TUSK_OF_USER
                                              : TUSK_OF_RATINGS;
    if (w->asked == TUSK_FOR_RATINGS
            ? !tusk_fold_in(s, w, r->fold, r->excluded, best->breathe, r->to, &r->known, sentence)
            : !copy_vector(s, w, r, sentence))
        return false;
    if (w->asked == TUSK_FOR_ITEM) {
        if (r->known && f->biases)
            r->to[0] = 0;
        return true;
    }
    if (!r->known && !f->biases) {
        const double *mean = tusk_mean_user(s, best->breathe, sentence);
        best->basis = TUSK_OF_MEAN;
        if (mean)
            memcpy(r->to, mean, f->width * sizeof *mean);
        r->base = s->intercept;
        return mean;
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

static void exclude(const tusk_scorer *s, const tusk_text *ids, uint64_t n, uint64_t *excluded) {
    char ignored[TUSK_SENTENCE];
    uint64_t item;
    for (uint64_t i = 0; i < n; i++)
        if (tusk_place_of(s, true, ids[i], &item, ignored) && item < s->factors.n_items)
            excluded[item / 64] |= UINT64_C(1) << (item % 64);
}

/* Leaves out what the caller says, the item itself, and what a new user has rated. */
static void mark_excluded(const tusk_scorer *s, const tusk_wanted *w, uint64_t *excluded) {
    memset(excluded, 0, words_of(s) * sizeof *excluded);
    exclude(s, w->exclude, w->n_exclude, excluded);
    exclude(s, &w->id, w->asked == TUSK_FOR_ITEM, excluded);
    exclude(s, w->rated, w->n_rated, excluded);
}

/* The score of an item with this vector. */
static double score_of(const tusk_scorer *s, const tusk_wanted *w, const room *r, double length,
                       const tusk_weight *v) {
    bool similar = w->asked == TUSK_FOR_ITEM;
    uint64_t from = similar && s->factors.biases, n = s->factors.width - from;
    double product = dot(r->to + from, v + from, n);
    if (!similar)
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

/* Whether the items of a result are numbers, if these are wanted. */
static bool check_numbers(const tusk_scorer *s, const tusk_wanted *w, const tusk_best *best,
                          char *sentence) {
    int64_t number;
    char room[TUSK_ID_TEXT];
    for (uint64_t i = 0; w->numbers && i < best->n; i++) {
        if (tusk_item_number(s, best->items[i].item, &number))
            continue;
        tusk_text text = tusk_item_text(s, best->items[i].item, room);
        snprintf(sentence, TUSK_SENTENCE,
                 "the items of the model are texts such as '%.*s'%s: give the id as text, and the "
                 "items "
                 "of the result are texts too",
                 tusk_quoted(text.data, text.length, 60), text.data,
                 has_digits_only(text) ? ", which is no BIGINT" : "");
        return false;
    }
    return true;
}

bool tusk_recommend(tusk_scorer *s, const tusk_wanted *w, tusk_best *best, char *sentence) {
    room r = {.to = best->work};
    r.read = r.to + s->factors.width;
    r.excluded = (uint64_t *)(r.read + s->factors.width);
    r.fold = (double *)(r.excluded + words_of(s));
    best->n = 0;
    if (!check(s, w, sentence))
        return false;
    if (s->null)
        return true;
    if (!prepare(s, w, &r, best, sentence))
        return false;
    bool nothing = w->asked == TUSK_FOR_ITEM && !r.known;
    return nothing ||
           (rank_items(s, w, &r, best, sentence) && check_numbers(s, w, best, sentence));
}
