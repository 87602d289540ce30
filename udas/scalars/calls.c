#include "calls.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "../../kvstore/mapped/default_root.h"
#include "models/payload.h"

#define EXPORTED __attribute__((visibility("default")))
#define LONGEST_PATH 4096

static sealed_cache *cache;

static void make_cache(void) {
    cache = sealed_cache_new();
}

EXPORTED int64_t tusk_make_payload(const tusk_model_fields *fields, char *out, int64_t room,
                                   tusk_refusal *why) {
    tusk_payload_parts parts;
    *why = (tusk_refusal){.sqlstate = "22023"};
    if (!tusk_payload_of(fields, &parts, why->sentence))
        return -1;
    size_t size = tusk_payload_size(&parts);
    if (size <= (size_t)room)
        tusk_payload_write(&parts, out);
    return (int64_t)size;
}

static bool score_sparse(tusk_scorer *s, const tusk_rows *rows, double *out, char *sentence) {
    const char *values = rows->x;
    size_t width = rows->f64 ? sizeof(double) : sizeof(float);
    for (int64_t i = 0; i < rows->n; i++) {
        int64_t begin = rows->begin[i];
        uint64_t n = (uint64_t)(rows->begin[i + 1] - begin);
        tusk_sparse_row row = {rows->ids + begin, values + (size_t)begin * width, n, n};
        if (!tusk_sparse_margin(s, &row, rows->f64, out + i, sentence))
            return false;
    }
    return true;
}

/* The probabilities of all classes, shape (n, n_classes). */
static bool score_classes(tusk_scorer *s, const tusk_rows *rows, double *out, char *sentence) {
    const char *x = rows->x;
    size_t width = rows->f64 ? sizeof(double) : sizeof(float);
    for (int64_t i = 0; i < rows->n; i++, out += s->n_classes) {
        int64_t begin = rows->ids ? rows->begin[i] : i * rows->width;
        uint64_t n = (uint64_t)(rows->ids ? rows->begin[i + 1] - begin : rows->width);
        const char *values = x + (size_t)begin * width;
        tusk_sparse_row row = {rows->ids + (rows->ids ? begin : 0), values, n, n};
        if (!tusk_probabilities(s, rows->ids ? &row : NULL, values, rows->f64, n, out, sentence))
            return false;
    }
    return true;
}

static bool score(tusk_scorer *s, enum tusk_answer answer, const tusk_rows *rows, double *out,
                  char *sentence) {
    uint64_t n = (uint64_t)rows->n;
    if (answer == TUSK_PREDICT_PROBAS)
        return s->null || score_classes(s, rows, out, sentence);
    if (s->null) {
        for (uint64_t i = 0; i < n; i++)
            out[i] = __builtin_nan("");
        return true;
    }
    if (rows->ids ? !score_sparse(s, rows, out, sentence)
                  : !tusk_margins(s, rows->x, rows->f64, (uint64_t)rows->width, n, out, sentence))
        return false;
    if (answer == TUSK_PREDICT || answer == TUSK_PREDICT_CLASS)
        tusk_to_predictions(s, out, n);
    else if (answer == TUSK_PREDICT_PROBA)
        tusk_to_probabilities(out, n);
    return true;
}

EXPORTED int tusk_answer_rows(tusk_text payload, int answer, const char *root,
                              const tusk_rows *rows, double *out, tusk_refusal *why) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char usual[LONGEST_PATH];
    tusk_scorer s;
    pthread_once(&once, make_cache);
    if (!root && tusk_default_root(usual, sizeof usual))
        root = usual;
    tusk_stores stores = {.cache = cache, .root = root, .memory = SEALED_MEMORY};
    *why = (tusk_refusal){.sqlstate = "22023"};
    bool done = tusk_read_model(payload, &stores, (enum tusk_answer)answer, &s, why->sentence) &&
                score(&s, (enum tusk_answer)answer, rows, out, why->sentence);
    if (!done && s.sqlstate)
        snprintf(why->sqlstate, sizeof why->sqlstate, "%s", s.sqlstate);
    tusk_forget_model(&s);
    return done;
}
