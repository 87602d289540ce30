/* Reads the helper's results, in the client's process, and emits them. */
#include <stdlib.h>
#include <string.h>

#include "../../emit.h"
#include "answers.h"

/* Progress of reading a body; pools: the arrays of pointers allocated for it. */
typedef struct reading {
    const char *at, *end;
    bool failed;
    const char **pools[MODEL_FIELDS];
    int n_pools;
} reading;

/* The next bytes; NULL for a body that ends too early. */
static const void *take(reading *r, int64_t n, size_t size) {
    size_t bytes = (size_t)n * size;
    if (n < 0 || (size && (size_t)n > SIZE_MAX / size) || bytes > (size_t)(r->end - r->at)) {
        r->failed = true;
        return NULL;
    }
    const char *found = r->at;
    size_t padded = tusk_align8(bytes);
    r->at = padded > (size_t)(r->end - r->at) ? r->end : r->at + padded;
    return found;
}

static int64_t take_count(reading *r) {
    const int64_t *n = take(r, 1, sizeof *n);
    return n ? *n : 0;
}

static const char *const *take_pool(reading *r) {
    int64_t n = take_count(r);
    const char *begin = r->at;
    if (r->failed || n < 0 || n > r->end - r->at) {
        r->failed = true;
        return NULL;
    }
    const char **pool = malloc(((size_t)n + 1) * sizeof *pool);
    if (!pool) {
        r->failed = true;
        return NULL;
    }
    r->pools[r->n_pools++] = pool;
    for (int64_t i = 0; i < n && !r->failed; i++) {
        pool[i] = r->at;
        const char *zero = memchr(r->at, 0, (size_t)(r->end - r->at));
        r->failed = !zero;
        r->at = zero ? zero + 1 : r->at;
    }
    size_t length = (size_t)(r->at - begin);
    r->at = begin;
    take(r, (int64_t)length, 1);
    return pool;
}

static void reading_free(reading *r) {
    for (int i = 0; i < r->n_pools; i++)
        free(r->pools[i]);
}

/* --- one function for each kind of field; n: of models --- */

static tusk_strings take_TEXT(reading *r, int64_t n) {
    const int32_t *code = take(r, n, sizeof *code);
    return (tusk_strings){take_pool(r), code};
}

/* Number of items of a pool that codes use, as in reply.c. */
static int64_t used_of(const int32_t *code, int64_t n) {
    int32_t most = -1;
    for (int64_t i = 0; code && i < n; i++)
        most = code[i] > most ? code[i] : most;
    return (int64_t)most + 1;
}

static tusk_names take_TEXTS(reading *r, int64_t n) {
    const int32_t *code = take(r, n, sizeof *code);
    const int64_t *begin = take(r, used_of(code, n) + 1, sizeof *begin);
    return (tusk_names){take_pool(r), begin, code};
}

static const double *take_NUMBER(reading *r, int64_t n) {
    return take(r, n, sizeof(double));
}

static tusk_lists take_NUMBERS(reading *r, int64_t n) {
    const int64_t *offsets = take(r, n + 1, sizeof *offsets);
    return (tusk_lists){take(r, offsets ? offsets[n] : 0, sizeof(double)), offsets};
}

static const int64_t *take_COUNT(reading *r, int64_t n) {
    return take(r, n, sizeof(int64_t));
}

static const uint8_t *take_TRUTH(reading *r, int64_t n) {
    return take(r, n, 1);
}

#define TAKE_PAYLOAD(name)
#define TAKE_TEXT(name) models.name = take_TEXT(r, models.n);
#define TAKE_TEXTS(name) models.name = take_TEXTS(r, models.n);
#define TAKE_NUMBER(name) models.name = take_NUMBER(r, models.n);
#define TAKE_NUMBERS(name) models.name = take_NUMBERS(r, models.n);
#define TAKE_COUNT(name) models.name = take_COUNT(r, models.n);
#define TAKE_TRUTH(name) models.name = take_TRUTH(r, models.n);
#define TAKE(NAME, name, KIND, meaning) TAKE_##KIND(name)

/* --- the answers --- */

static void emit_models(tusk_batch *batch, reading *r) {
    tusk_models models = {.n = take_count(r)};
    models.group = take_COUNT(r, models.n);
    TUSK_MODEL_FIELDS(TAKE)
    for (int64_t i = 0; i < models.n && !r->failed; i++)
        r->failed = models.group[i] < 0 || models.group[i] >= batch->n_groups;
    if (!r->failed)
        tusk_emit_models(batch, &models);
}

static void emit_frequencies(tusk_batch *batch, int64_t group, reading *r) {
    tusk_frequencies found = {.n = take_count(r)};
    found.feature = take_COUNT(r, found.n);
    found.estimate = take_COUNT(r, found.n);
    found.lower = take_COUNT(r, found.n);
    found.upper = take_COUNT(r, found.n);
    if (!r->failed)
        tusk_emit_frequencies(batch, group, &found);
}

static const char *take_text(reading *r) {
    const char *zero = memchr(r->at, 0, (size_t)(r->end - r->at));
    return take(r, zero ? zero - r->at + 1 : -1, 1);
}

static void emit_partitioning(tusk_batch *batch, int64_t group, reading *r) {
    const tusk_partitioning *sent = take(r, 1, sizeof *sent);
    if (!sent)
        return;
    tusk_partitioning made = *sent;
    made.block_sizes = take_COUNT(r, made.n_block_sizes);
    made.explanation = take_text(r);
    made.index_map = take_text(r);
    if (!r->failed)
        tusk_emit_partitioning(batch, group, &made);
}

static void emit_text(tusk_batch *batch, int64_t group, reading *r) {
    const char *text = take_text(r);
    if (!r->failed)
        tusk_emit_text(batch, group, text);
}

bool answer_emit(tusk_batch *batch, const answer_head *head, const char *body) {
    reading r = {.at = body, .end = body + head->bytes};
    bool of_group = head->kind != SAY_MODELS;
    if (of_group && (head->group < 0 || head->group >= batch->n_groups))
        return false;
    if (head->kind == SAY_MODELS)
        emit_models(batch, &r);
    else if (head->kind == SAY_TEXT)
        emit_text(batch, head->group, &r);
    else if (head->kind == SAY_FREQUENCIES)
        emit_frequencies(batch, head->group, &r);
    else if (head->kind == SAY_PARTITIONING)
        emit_partitioning(batch, head->group, &r);
    else
        r.failed = true;
    reading_free(&r);
    return !r.failed;
}
