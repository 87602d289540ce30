/* Sends the trainer's results, in the helper process. */
#include <stdlib.h>
#include <string.h>

#include "answers.h"
#include "channel.h"

typedef struct bytes {
    char *data;
    size_t n, room;
    bool failed;
} bytes;

static void put_raw(bytes *b, const void *from, size_t size) {
    if (b->failed || !size)
        return;
    if (b->n + size > b->room) {
        size_t room = b->n + size + (b->n + size) / 2 + 64;
        char *more = realloc(b->data, room);
        if (!more) {
            b->failed = true;
            return;
        }
        b->data = more;
        b->room = room;
    }
    memcpy(b->data + b->n, from, size);
    b->n += size;
}

static void pad(bytes *b) {
    static const char zeros[8];
    put_raw(b, zeros, tusk_align8(b->n) - b->n);
}

static void put(bytes *b, const void *from, size_t size) {
    put_raw(b, from, size);
    pad(b);
}

static void put_count(bytes *b, int64_t n) {
    put(b, &n, sizeof n);
}

static void put_pool(bytes *b, const char *const *pool, int64_t n) {
    put_count(b, n);
    for (int64_t i = 0; i < n; i++)
        put_raw(b, pool[i], strlen(pool[i]) + 1);
    pad(b);
}

/* Number of items of a pool that codes use. */
static int64_t used_of(const int32_t *code, int64_t n) {
    int32_t most = -1;
    for (int64_t i = 0; i < n; i++)
        most = code[i] > most ? code[i] : most;
    return (int64_t)most + 1;
}

/* --- one function for each kind of field; n: of models --- */

static void put_TEXT(bytes *b, tusk_strings s, int64_t n) {
    put(b, s.code, (size_t)n * sizeof *s.code);
    put_pool(b, s.pool, used_of(s.code, n));
}

static void put_TEXTS(bytes *b, tusk_names s, int64_t n) {
    static const int64_t none;
    int64_t lists = used_of(s.code, n);
    const int64_t *begin = lists ? s.begin : &none;
    put(b, s.code, (size_t)n * sizeof *s.code);
    put(b, begin, (size_t)(lists + 1) * sizeof *begin);
    put_pool(b, s.pool, begin[lists]);
}

static void put_NUMBER(bytes *b, const double *x, int64_t n) {
    put(b, x, (size_t)n * sizeof *x);
}

static void put_NUMBERS(bytes *b, tusk_lists l, int64_t n) {
    put(b, l.offsets, (size_t)(n + 1) * sizeof *l.offsets);
    put(b, l.values, (size_t)l.offsets[n] * sizeof *l.values);
}

static void put_COUNT(bytes *b, const int64_t *x, int64_t n) {
    put(b, x, (size_t)n * sizeof *x);
}

static void put_TRUTH(bytes *b, const uint8_t *x, int64_t n) {
    put(b, x, (size_t)n);
}

#define PUT_PAYLOAD(name)
#define PUT_TEXT(name) put_TEXT(&b, models->name, models->n);
#define PUT_TEXTS(name) put_TEXTS(&b, models->name, models->n);
#define PUT_NUMBER(name) put_NUMBER(&b, models->name, models->n);
#define PUT_NUMBERS(name) put_NUMBERS(&b, models->name, models->n);
#define PUT_COUNT(name) put_COUNT(&b, models->name, models->n);
#define PUT_TRUTH(name) put_TRUTH(&b, models->name, models->n);
#define PUT(NAME, name, KIND, meaning) PUT_##KIND(name)

/* --- the answers --- */

/* Sends a body and frees it. */
static void send_body(reply *r, int32_t kind, int64_t group, bytes *b) {
    answer_head head = {.kind = kind, .group = group, .bytes = (int64_t)b->n};
    r->failed = r->failed || b->failed || !stream_send(r->stream, &head, sizeof head) ||
                !stream_send(r->stream, b->data, b->n);
    free(b->data);
}

void reply_begun(reply *r) {
    send_body(r, SAY_BEGUN, -1, &(bytes){0});
}

void reply_models(reply *r, const tusk_models *models) {
    bytes b = {0};
    put_count(&b, models->n);
    put_COUNT(&b, models->group, models->n);
    TUSK_MODEL_FIELDS(PUT)
    send_body(r, SAY_MODELS, -1, &b);
}

void reply_text(reply *r, int64_t group, const char *text) {
    bytes b = {0};
    put(&b, text, strlen(text) + 1);
    send_body(r, SAY_TEXT, group, &b);
}

void reply_frequencies(reply *r, int64_t group, const tusk_frequencies *found) {
    bytes b = {0};
    put_count(&b, found->n);
    put_COUNT(&b, found->feature, found->n);
    put_COUNT(&b, found->estimate, found->n);
    put_COUNT(&b, found->lower, found->n);
    put_COUNT(&b, found->upper, found->n);
    send_body(r, SAY_FREQUENCIES, group, &b);
}

void reply_partitioning(reply *r, int64_t group, const tusk_partitioning *made) {
    bytes b = {0};
    put(&b, made, sizeof *made);
    put_COUNT(&b, made->block_sizes, made->n_block_sizes);
    put(&b, made->explanation, strlen(made->explanation) + 1);
    put(&b, made->index_map, strlen(made->index_map) + 1);
    send_body(r, SAY_PARTITIONING, group, &b);
}

void reply_end(reply *r, const tusk_batch *batch) {
    answer_end end = {.answered = batch->answered && !r->failed};
    memcpy(end.error, batch->error, sizeof end.error);
    memcpy(end.sqlstate, batch->sqlstate, sizeof end.sqlstate);
    if (r->failed && !end.error[0])
        strcpy(end.error, "the helper process has no memory to send the models");
    answer_head head = {.kind = SAY_END, .group = -1, .bytes = sizeof end};
    if (stream_send(r->stream, &head, sizeof head))
        stream_send(r->stream, &end, sizeof end);
}
