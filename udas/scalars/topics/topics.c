/* Opens topics and lists their words. */
#include "topics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../models/payload.h"
#include "../models/quoted.h"

#define VERSION 1
#define MOST_TOPICS 32000
#define HAS_DICTIONARY 1
#define HAS_SHARES 2

typedef struct head {
    uint32_t version, n_topics, n_words, flags;
    uint64_t n_entries, text_bytes;
    double beta;
    uint64_t tokens, occurring, documents;
} head;
_Static_assert(sizeof(head) == 64, "the head of topics has 64 bytes");

/* The remaining bytes. */
typedef struct rest {
    const char *at;
    uint64_t left;
} rest;

/* n items; sections are padded to multiples of 8 bytes. NULL if there are not that many. */
static const void *section(rest *r, uint64_t n, size_t size) {
    if (n > r->left / size)
        return NULL;
    uint64_t bytes = (n * size + 7) & ~(uint64_t)7;
    if (bytes > r->left)
        return NULL;
    const char *at = r->at;
    r->at += bytes;
    r->left -= bytes;
    return at;
}

static bool find_sections(const head *h, rest *r, tusk_topics *t) {
    t->alpha = section(r, t->n_topics, sizeof *t->alpha);
    t->totals = section(r, t->n_topics, sizeof *t->totals);
    t->start = section(r, (uint64_t)t->n_words + 1, sizeof *t->start);
    t->topic = section(r, t->n_entries, sizeof *t->topic);
    const void *counts = section(r, t->n_entries, sizeof *t->count);
    if (!t->alpha || !t->totals || !t->start || !t->topic || !counts)
        return false;
    if (h->flags & HAS_SHARES)
        t->share = counts;
    else
        t->count = counts;
    if (h->flags & HAS_DICTIONARY) {
        t->offset = section(r, (uint64_t)t->n_words + 1, sizeof *t->offset);
        t->text = t->offset ? section(r, h->text_bytes, 1) : NULL;
    }
    return r->left == 0 && !(h->flags & HAS_DICTIONARY) == !t->text;
}

/* Whether n + 1 offsets begin at 0, never fall, and end at `end`. */
static bool rising(const tusk_u32 *offset, uint32_t n, uint64_t end) {
    bool fine = offset[0] == 0 && offset[n] == end;
    for (uint32_t i = 0; i < n; i++)
        fine &= offset[i] <= offset[i + 1];
    return fine;
}

/* Whether all words, whose offsets were checked, are UTF-8 without a character of code 0. */
static bool all_text(const tusk_topics *t) {
    for (uint32_t id = 0; id < t->n_words; id++) {
        tusk_text word = tusk_topic_word(t, id);
        const unsigned char *at = (const unsigned char *)word.data;
        for (uint32_t i = 0, size; i < word.length; i += size) {
            size = tusk_character(at + i, (uint32_t)word.length - i);
            if (!size || !at[i])
                return false;
        }
    }
    return true;
}

static bool all_sound(const tusk_topics *t, uint64_t text_bytes) {
    bool fine = rising(t->start, t->n_words, t->n_entries) &&
                (!t->offset || rising(t->offset, t->n_words, text_bytes));
    double all_alpha = 0, smoothing = t->beta * t->occurring;
    for (uint32_t k = 0; k < t->n_topics; k++) {
        fine &= t->alpha[k] > 0 && t->totals[k] >= 0 && isfinite(t->totals[k] + smoothing);
        all_alpha += t->alpha[k];
    }
    fine &= isfinite(all_alpha);
    for (uint64_t i = 0; i < t->n_entries; i++)
        fine &= t->topic[i] < t->n_topics;
    for (uint64_t i = 0; t->share && i < t->n_entries; i++)
        fine &= t->share[i] >= 0 && isfinite(t->share[i]);
    return fine;
}

bool tusk_topics_open(const char *bytes, uint64_t size, tusk_topics *t) {
    head h;
    *t = (tusk_topics){0};
    if (size < sizeof h)
        return false;
    memcpy(&h, bytes, sizeof h);
    if (h.version != VERSION || !h.n_topics || h.n_topics > MOST_TOPICS || h.n_words > INT32_MAX ||
        h.flags & ~(uint32_t)(HAS_DICTIONARY | HAS_SHARES) || !(h.beta > 0 && isfinite(h.beta)) ||
        h.occurring > h.n_words)
        return false;
    t->n_topics = h.n_topics;
    t->n_words = h.n_words;
    t->n_entries = h.n_entries;
    t->beta = h.beta;
    t->occurring = (double)h.occurring;
    rest r = {bytes + sizeof h, size - sizeof h};
    return find_sections(&h, &r, t) && all_sound(t, h.text_bytes) && (!t->text || all_text(t));
}

bool tusk_topics_of(tusk_text payload, tusk_topics *t, char *sentence, const char **sqlstate) {
    tusk_payload_view v;
    *sqlstate = NULL;
    if (!tusk_payload_open(payload, &v, sentence, sqlstate))
        return false;
    if (v.head.task != TUSK_TOPICS || v.head.flags & TUSK_HAS_NULLS) {
        snprintf(sentence, TUSK_SENTENCE, "model is '%.*s', expected 'lda'",
                 tusk_quoted(v.name.data, v.name.length, 40), v.name.data);
        return false;
    }
    if (tusk_topics_open((const char *)v.weights, v.head.n_weights * sizeof(double), t))
        return true;
    *sqlstate = "XX001";
    snprintf(sentence, TUSK_SENTENCE,
             "the topics of the model are damaged: restore the model from a backup");
    return false;
}

/* --- words of topics --- */

#define MOST_TOP_WORDS 20000000 /* of all topics */

uint32_t tusk_top_room(const tusk_topics *t, int64_t words, char *sentence) {
    int64_t most = MOST_TOP_WORDS / t->n_topics;
    if (words >= 1 && words <= most)
        return words < t->n_words ? (uint32_t)words : t->n_words ? t->n_words : 1;
    snprintf(sentence, TUSK_SENTENCE, "words is %lld, expected 1 to %lld of %u topics",
             (long long)words, (long long)most, t->n_topics);
    return 0;
}

static bool better(tusk_top_word a, tusk_top_word b) {
    return a.probability > b.probability || (a.probability == b.probability && a.id < b.id);
}

/* Adds to the words of one topic: a heap whose first one is the worst. */
static void add_word(tusk_top_word *heap, uint32_t *found, uint32_t n, tusk_top_word word) {
    uint32_t at;
    if (*found < n) {
        for (at = (*found)++; at && better(heap[(at - 1) / 2], word); at = (at - 1) / 2)
            heap[at] = heap[(at - 1) / 2];
        heap[at] = word;
        return;
    }
    if (!better(word, *heap))
        return;
    for (at = 0;;) {
        uint32_t child = 2 * at + 1;
        if (child + 1 < n && better(heap[child], heap[child + 1]))
            child++;
        if (child >= n || !better(word, heap[child]))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = word;
}

static int by_rank(const void *a, const void *b) {
    return better(*(const tusk_top_word *)a, *(const tusk_top_word *)b) ? -1 : 1;
}

static bool has_entry(const tusk_topics *t, uint32_t id, uint32_t topic) {
    for (uint32_t i = t->start[id]; i < t->start[id + 1]; i++)
        if (t->topic[i] == topic)
            return true;
    return false;
}

uint32_t tusk_top_words(const tusk_topics *t, uint32_t n, tusk_top_word *out) {
    uint32_t occurring = 0, found[MOST_TOPICS] = {0};
    for (uint32_t id = 0; id < t->n_words; id++) {
        occurring += tusk_word_occurs(t, id);
        for (uint32_t i = t->start[id]; i < t->start[id + 1]; i++) {
            uint32_t k = t->topic[i];
            double all = t->totals[k] + t->beta * t->occurring;
            add_word(out + (uint64_t)k * n, found + k, n,
                     (tusk_top_word){id, (tusk_entry(t, i) + t->beta) / all});
        }
    }
    uint32_t wanted = n < occurring ? n : occurring;
    for (uint32_t k = 0; k < t->n_topics; k++) {
        tusk_top_word *top = out + (uint64_t)k * n;
        double least = t->beta / (t->totals[k] + t->beta * t->occurring);
        for (uint32_t id = 0; found[k] < wanted; id++)
            if (tusk_word_occurs(t, id) && !has_entry(t, id, k))
                top[found[k]++] = (tusk_top_word){id, least};
        qsort(top, wanted, sizeof *top, by_rank);
    }
    return wanted;
}

tusk_text tusk_topic_term(const tusk_topics *t, uint32_t id, char number[16]) {
    if (t->offset)
        return tusk_topic_word(t, id);
    return (tusk_text){number, (size_t)snprintf(number, 16, "%u", id)};
}
