#include "coherence.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../models/quoted.h"

#define EPSILON 1e-12
#define MOST_PAIRS 50000000 /* of words of one topic, over all topics */

bool tusk_coherence_of(tusk_text name, enum tusk_coherence *measure, char *sentence) {
    static const char *const NAMES[] = {[TUSK_U_MASS] = "u_mass", [TUSK_C_V] = "c_v"};
    for (int m = TUSK_U_MASS; m <= TUSK_C_V; m++)
        if (name.length == strlen(NAMES[m]) && memcmp(name.data, NAMES[m], name.length) == 0) {
            *measure = (enum tusk_coherence)m;
            return true;
        }
    snprintf(sentence, TUSK_SENTENCE, "measure is '%.*s', expected 'u_mass' or 'c_v'",
             tusk_quoted(name.data, name.length, 40), name.data);
    return false;
}

uint32_t tusk_coherence_words(const tusk_topics *t, int64_t words, char *sentence) {
    int64_t most = (int64_t)sqrt((double)MOST_PAIRS / t->n_topics);
    if (words >= 2 && words <= most)
        return tusk_top_room(t, words, sentence);
    snprintf(sentence, TUSK_SENTENCE, "words is %lld, expected 2 to %lld of %u topics",
             (long long)words, (long long)most, t->n_topics);
    return 0;
}

void tusk_mark_best(const tusk_topics *t, const tusk_best_words *best, uint8_t *mark) {
    for (uint32_t k = 0; k < t->n_topics; k++)
        for (uint32_t i = 0; i < best->found; i++)
            mark[best->word[(uint64_t)k * best->n + i].id] = 1;
}

uint64_t tusk_reduce_document(tusk_inference *by, const uint8_t *mark, const tusk_text *words,
                              uint64_t n, int32_t *out) {
    uint64_t at = 2, place = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!words[i].data)
            continue;
        int64_t id = tusk_id_of_word(by, words[i]);
        if (id >= 0 && mark[id]) {
            out[at++] = (int32_t)place;
            out[at++] = (int32_t)id;
        }
        place++;
    }
    out[0] = (int32_t)(at - 2);
    out[1] = (int32_t)place;
    return place ? at : 0;
}

uint64_t tusk_reduce_ids(const tusk_inference *by, const uint8_t *mark, const tusk_word_counts *d,
                         int32_t *out) {
    (void)by;
    uint64_t at = 2;
    for (uint64_t w = 0; w < d->n; w++)
        if (mark[d->id[w]]) {
            out[at++] = 0;
            out[at++] = d->id[w];
        }
    out[0] = (int32_t)(at - 2);
    out[1] = 1;
    return d->any ? at : 0;
}

static int32_t number_at(const char *bytes, uint64_t i) {
    int32_t number;
    memcpy(&number, bytes + i * sizeof number, sizeof number);
    return number;
}

bool tusk_is_reduced(const tusk_topics *t, const uint8_t *mark, const char *bytes, uint64_t size) {
    uint64_t n = size / sizeof(int32_t);
    if (n * sizeof(int32_t) != size || n < 2 || n % 2 || number_at(bytes, 0) != (int64_t)n - 2 ||
        number_at(bytes, 1) < 1)
        return false;
    int32_t least = 0, tokens = number_at(bytes, 1);
    for (uint64_t i = 2; i < n; i += 2) {
        int32_t place = number_at(bytes, i), id = number_at(bytes, i + 1);
        if (place < least || place >= tokens || id < 0 || (uint32_t)id >= t->n_words || !mark[id])
            return false;
        least = place;
    }
    return true;
}

/* Membership of a word in the best ones of a topic. */
typedef struct seat {
    uint32_t id, topic, rank;
} seat;

/* Numbers of windows in which words occur, alone and together. */
typedef struct counting {
    uint32_t n_topics, found;
    uint64_t *together; /* [n_topics][found][found], alone on the diagonal */
    uint64_t windows;
    const seat *seats;   /* [n_topics * found], by id */
    uint64_t *first;     /* [n_words + 1] first seat of a word */
    uint32_t *present;   /* [n_topics][found] ranks of the words in the window */
    uint32_t *n_present; /* [n_topics] */
    uint32_t *times;     /* [n_words] number of occurrences of each marked word in the window */
    int32_t *ids;        /* distinct marked words in the window */
    uint32_t n_ids;
} counting;

/* Counts `windows` windows with the present words. */
static void add_windows(counting *c, uint64_t windows) {
    c->windows += windows;
    if (!windows || !c->n_ids)
        return;
    memset(c->n_present, 0, c->n_topics * sizeof *c->n_present);
    for (uint32_t i = 0; i < c->n_ids; i++)
        for (uint64_t s = c->first[c->ids[i]]; s < c->first[c->ids[i] + 1]; s++) {
            uint32_t k = c->seats[s].topic;
            c->present[(uint64_t)k * c->found + c->n_present[k]++] = c->seats[s].rank;
        }
    for (uint32_t k = 0; k < c->n_topics; k++) {
        const uint32_t *rank = c->present + (uint64_t)k * c->found;
        uint64_t *pair = c->together + (uint64_t)k * c->found * c->found;
        for (uint32_t i = 0; i < c->n_present[k]; i++)
            for (uint32_t j = 0; j < c->n_present[k]; j++)
                pair[(uint64_t)rank[i] * c->found + rank[j]] += windows;
    }
}

static void enter(counting *c, int32_t id) {
    if (!c->times[id]++)
        c->ids[c->n_ids++] = id;
}

static void leave(counting *c, int32_t id) {
    if (--c->times[id])
        return;
    uint32_t i = 0;
    while (c->ids[i] != id)
        i++;
    c->ids[i] = c->ids[--c->n_ids];
}

/* Slides a window over a document: between the steps at which marked words enter or leave,
 * windows have the same words. Window b has the positions b .. b + size - 1. */
static void add_document(counting *c, const int32_t *d, uint64_t size) {
    uint64_t tokens = (uint64_t)d[1], n = (uint64_t)d[0] / 2, in = 0, out = 0;
    uint64_t windows = size && tokens > size ? tokens - size + 1 : 1;
    uint64_t width = windows == 1 ? tokens : size;
    const int32_t *place = d + 2;
    for (uint64_t begin = 0, next; begin < windows; begin = next) {
        for (; in < n && (uint64_t)place[2 * in] < begin + width; in++)
            enter(c, place[2 * in + 1]);
        for (; out < in && (uint64_t)place[2 * out] < begin; out++)
            leave(c, place[2 * out + 1]);
        next = windows;
        if (in < n && (uint64_t)place[2 * in] + 1 - width < next)
            next = (uint64_t)place[2 * in] + 1 - width;
        if (out < in && (uint64_t)place[2 * out] + 1 < next)
            next = (uint64_t)place[2 * out] + 1;
        add_windows(c, next - begin);
    }
    for (uint32_t i = 0; i < c->n_ids; i++)
        c->times[c->ids[i]] = 0;
    c->n_ids = 0;
}

static double u_mass(const counting *c, const uint64_t *pair) {
    double sum = 0, all = (double)c->windows;
    uint64_t pairs = 0;
    for (uint32_t i = 1; i < c->found; i++)
        for (uint32_t j = 0; j < i; j++, pairs++) {
            double alone = (double)pair[(uint64_t)j * c->found + j];
            double both = (double)pair[(uint64_t)i * c->found + j];
            sum += alone > 0 ? log((both / all + EPSILON) / (alone / all)) : 0;
        }
    return sum / (double)pairs;
}

static double npmi(const counting *c, const uint64_t *pair, uint32_t i, uint32_t j) {
    double all = (double)c->windows, both = (double)pair[(uint64_t)i * c->found + j] / all;
    double one = (double)pair[(uint64_t)i * c->found + i] / all;
    double other = (double)pair[(uint64_t)j * c->found + j] / all;
    if (!(one > 0 && other > 0))
        return 0;
    return log((both + EPSILON) / (one * other)) / -log(both + EPSILON);
}

/* vectors: room for (found + 1) * found. */
static double c_v(const counting *c, const uint64_t *pair, double *vectors) {
    uint32_t n = c->found;
    double *sum = vectors + (uint64_t)n * n, size = 0, total = 0;
    memset(sum, 0, n * sizeof *sum);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++)
            sum[j] += vectors[(uint64_t)i * n + j] = npmi(c, pair, i, j);
    for (uint32_t j = 0; j < n; j++)
        size += sum[j] * sum[j];
    for (uint32_t i = 0; i < n; i++) {
        const double *v = vectors + (uint64_t)i * n;
        double dot = 0, own = 0;
        for (uint32_t j = 0; j < n; j++) {
            dot += v[j] * sum[j];
            own += v[j] * v[j];
        }
        total += own > 0 && size > 0 ? dot / sqrt(own * size) : 0;
    }
    return total / n;
}

static int by_id(const void *a, const void *b) {
    const seat *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id)
                          : (x->topic > y->topic) - (x->topic < y->topic);
}

/* Records the topics of each word. */
static void take_seats(counting *c, const tusk_topics *t, const tusk_best_words *best,
                       seat *seats) {
    uint64_t n = 0;
    for (uint32_t k = 0; k < t->n_topics; k++)
        for (uint32_t i = 0; i < c->found; i++)
            seats[n++] = (seat){best->word[(uint64_t)k * best->n + i].id, k, i};
    qsort(seats, n, sizeof *seats, by_id);
    for (uint64_t i = 0; i < n; i++)
        c->first[seats[i].id + 1]++;
    for (uint64_t w = 0; w < t->n_words; w++)
        c->first[w + 1] += c->first[w];
    c->seats = seats;
}

/* Documents come from tusk_reduce_document only. */
static double judge(counting *c, const int32_t *documents, uint64_t length,
                    enum tusk_coherence measure, double *vectors) {
    for (uint64_t at = 0; at < length; at += (uint64_t)documents[at] + 2)
        add_document(c, documents + at, measure == TUSK_C_V ? TUSK_COHERENCE_WINDOW : 0);
    if (!c->windows || c->found < 2)
        return NAN;
    double sum = 0;
    for (uint32_t k = 0; k < c->n_topics; k++) {
        const uint64_t *pair = c->together + (uint64_t)k * c->found * c->found;
        sum += measure == TUSK_C_V ? c_v(c, pair, vectors) : u_mass(c, pair);
    }
    return sum / c->n_topics;
}

bool tusk_coherence(const tusk_topics *t, const tusk_best_words *best, const int32_t *documents,
                    uint64_t length, enum tusk_coherence measure, double *coherence) {
    uint64_t found = best->found, all = t->n_topics * found, words = t->n_words;
    counting c = {.n_topics = t->n_topics, .found = best->found};
    seat *seats = calloc(all + 1, sizeof *seats);
    double *vectors = calloc((found + 1) * found + 1, sizeof *vectors);
    c.together = calloc(all * found + 1, sizeof *c.together);
    c.first = calloc(words + 2, sizeof *c.first);
    c.present = calloc(all + 1, sizeof *c.present);
    c.n_present = calloc(t->n_topics, sizeof *c.n_present);
    c.times = calloc(words + 1, sizeof *c.times);
    c.ids = calloc(words + 1, sizeof *c.ids);
    bool room =
        seats && vectors && c.together && c.first && c.present && c.n_present && c.times && c.ids;
    if (room) {
        take_seats(&c, t, best, seats);
        *coherence = judge(&c, documents, length, measure, vectors);
    }
    void *taken[] = {seats, vectors, c.together, c.first, c.present, c.n_present, c.times, c.ids};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        free(taken[i]);
    return room;
}
