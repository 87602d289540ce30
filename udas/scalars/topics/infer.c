/* Topics of documents that a model has not seen. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../rowblock/text_hash.h"
#include "../named/words.h"
#include "topics.h"

#define KNOWN_WORDS 16384 /* a power of 2 */
#define MOST_SWEEPS 100
#define ENOUGH                                                                       \
    1e-4 /* of the tokens: the sweep that moves fewer between topics is the last one \
          */

size_t tusk_inference_room(const tusk_topics *t) {
    return 4 * t->n_topics * sizeof(double) + KNOWN_WORDS * sizeof(uint32_t);
}

tusk_inference tusk_inference_in(void *room, const tusk_topics *t) {
    uint32_t k = t->n_topics;
    tusk_inference by = {.topics = t, .scale = room};
    by.weight = by.scale + k;
    by.theta = by.weight + k;
    by.next = by.theta + k;
    by.known = memset(by.next + k, 0, KNOWN_WORDS * sizeof *by.known);
    for (uint32_t i = 0; i < k; i++) {
        by.scale[i] = 1 / (t->totals[i] + t->beta * t->occurring);
        by.all_alpha += t->alpha[i];
    }
    return by;
}

/* --- words --- */

static int order_of(tusk_text a, tusk_text b) {
    size_t n = a.length < b.length ? a.length : b.length;
    int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

/* The dictionary is sorted; -1: the word is not in it. */
static int64_t search(const tusk_topics *t, tusk_text word) {
    uint32_t from = 0, to = t->n_words;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        int order = order_of(tusk_topic_word(t, middle), word);
        if (!order)
            return middle;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return -1;
}

int64_t tusk_id_of_word(tusk_inference *by, tusk_text word) {
    uint32_t *known = by->known + (tusk_hash_text(word.data, word.length) & (KNOWN_WORDS - 1));
    if (*known) {
        tusk_text found = tusk_topic_word(by->topics, *known - 1);
        if (found.length == word.length && tusk_same_bytes(found.data, word.data, word.length))
            return *known - 1;
    }
    int64_t id = search(by->topics, word);
    if (id >= 0)
        *known = (uint32_t)id + 1;
    return id;
}

tusk_word_counts tusk_count_document(tusk_inference *by, const tusk_text *words, uint64_t n,
                                     void *room) {
    tusk_word_table table = tusk_word_table_in(room, n);
    bool any = false;
    for (uint64_t i = 0; i < n; i++) {
        any |= words[i].data != NULL;
        int64_t id = words[i].data ? tusk_id_of_word(by, words[i]) : -1;
        if (tusk_word_occurs(by->topics, id))
            tusk_count_word(&table, (int32_t)id, 1);
    }
    return (tusk_word_counts){table.id, table.count, (float *)table.place, table.n, any};
}

bool tusk_count_ids(const tusk_inference *by, const tusk_sparse_row *row, bool f64, void *room,
                    tusk_word_counts *found, char *sentence) {
    if (row->n_ids != row->n_values) {
        snprintf(sentence, TUSK_SENTENCE,
                 "sparse() got %llu indices and %llu values, expected as many",
                 (unsigned long long)row->n_ids, (unsigned long long)row->n_values);
        return false;
    }
    tusk_word_table table = tusk_word_table_in(room, row->n_ids);
    bool any = false;
    for (uint64_t i = 0; i < row->n_ids; i++) {
        double count =
            f64 ? ((const double *)row->values)[i] : (double)((const float *)row->values)[i];
        if (!(count >= 0 && count <= UINT32_MAX)) {
            snprintf(sentence, TUSK_SENTENCE,
                     "the count of id %lld is %g, expected a number from 0 to %u",
                     (long long)tusk_id_at(row, i), count, UINT32_MAX);
            return false;
        }
        any |= count > 0;
        if (count > 0 && tusk_word_occurs(by->topics, tusk_id_at(row, i)))
            tusk_count_word(&table, (int32_t)tusk_id_at(row, i), (float)count);
    }
    *found = (tusk_word_counts){table.id, table.count, (float *)table.place, table.n, any};
    return true;
}

/* --- topics --- */

/* One sweep: next[k] = the sum over tokens of p(k | word, theta), where theta is the numerator
 * n_dk + alpha_k. Entries of a word are few, and beta's part of all words is the same. */
static void sweep(tusk_inference *by, const tusk_word_counts *d) {
    const tusk_topics *t = by->topics;
    double base = 0, rest = 0;
    for (uint32_t k = 0; k < t->n_topics; k++) {
        by->weight[k] = by->theta[k] * by->scale[k];
        by->next[k] = 0;
        base += by->weight[k];
    }
    for (uint64_t w = 0; w < d->n; w++) {
        uint32_t first = t->start[d->id[w]], last = t->start[d->id[w] + 1];
        double sum = t->beta * base;
        for (uint32_t i = first; i < last; i++)
            sum += by->weight[t->topic[i]] * tusk_entry(t, i);
        double each = d->count[w] / sum;
        rest += each;
        for (uint32_t i = first; i < last; i++)
            by->next[t->topic[i]] += each * by->weight[t->topic[i]] * tusk_entry(t, i);
    }
    for (uint32_t k = 0; k < t->n_topics; k++)
        by->next[k] += rest * t->beta * by->weight[k];
}

static double tokens_of(const tusk_word_counts *d) {
    double n = 0;
    for (uint64_t w = 0; w < d->n; w++)
        n += d->count[w];
    return n;
}

/* CVB0 with the model's topics fixed (A. Asuncion et al., On smoothing and inference for topic
 * models, UAI 2009), in the form of J. Foulds et al. (KDD 2013), where a token's own share
 * stays in the counts. So sweeps read each word once and need no state except the counts. */
void tusk_infer_topics(tusk_inference *by, const tusk_word_counts *d, double *theta) {
    const tusk_topics *t = by->topics;
    double n = tokens_of(d), moved = n > 0 ? INFINITY : 0;
    for (uint32_t k = 0; k < t->n_topics; k++)
        by->theta[k] = t->alpha[k] * (1 + n / by->all_alpha);
    for (int i = 0; i < MOST_SWEEPS && moved > ENOUGH * n; i++) {
        sweep(by, d);
        moved = 0;
        for (uint32_t k = 0; k < t->n_topics; k++) {
            double now = by->next[k] + t->alpha[k];
            moved += fabs(now - by->theta[k]);
            by->theta[k] = now;
        }
    }
    for (uint32_t k = 0; k < t->n_topics; k++)
        theta[k] = by->theta[k] / (n + by->all_alpha);
}

/* The log probability of a document under theta. */
static double log_likelihood_of(const tusk_inference *by, const tusk_word_counts *d,
                                const double *theta) {
    const tusk_topics *t = by->topics;
    double base = 0, sum = 0;
    for (uint32_t k = 0; k < t->n_topics; k++)
        base += theta[k] * by->scale[k] * t->beta;
    for (uint64_t w = 0; w < d->n; w++) {
        double p = base;
        for (uint32_t i = t->start[d->id[w]]; i < t->start[d->id[w] + 1]; i++)
            p += theta[t->topic[i]] * by->scale[t->topic[i]] * tusk_entry(t, i);
        sum += d->count[w] > 0 ? d->count[w] * log(p) : 0;
    }
    return sum;
}

void tusk_complete_document(tusk_inference *by, const tusk_word_counts *d, double *log_likelihood,
                            double *tokens) {
    tusk_word_counts given = *d, judged = *d;
    given.count = d->spare;
    bool up = false; /* halves are rounded down and up in turns */
    for (uint64_t w = 0; w < d->n; w++) {
        float half = d->count[w] / 2;
        given.count[w] = up ? ceilf(half) : floorf(half);
        up ^= half != floorf(half);
    }
    tusk_infer_topics(by, &given, by->theta);
    for (uint64_t w = 0; w < d->n; w++)
        judged.count[w] -= given.count[w];
    *log_likelihood = log_likelihood_of(by, &judged, by->theta);
    *tokens = tokens_of(&judged);
}
