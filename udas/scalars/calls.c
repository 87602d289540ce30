#include "calls.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../kvstore/mapped/default_root.h"
#include "metrics/heap.h"
#include "models/interval.h"

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
    tusk_payload_free(&parts);
    return (int64_t)size;
}

EXPORTED tusk_text tusk_text_in(const void *texts, uint64_t k) {
    return ((const tusk_text *)texts)[k];
}

EXPORTED bool tusk_class_names_are_text(const tusk_class_names *names, tusk_numbers classes) {
    return tusk_has_text_classes(names, classes);
}

static const void *ids_from(const tusk_rows *rows, int64_t at) {
    return (const char *)rows->ids + (size_t)at * (rows->wide ? 8 : 4);
}

static bool score_sparse(tusk_scorer *s, const tusk_rows *rows, double *out, char *sentence) {
    const char *values = rows->x;
    size_t width = rows->f64 ? sizeof(double) : sizeof(float);
    for (int64_t i = 0; i < rows->n; i++) {
        int64_t begin = rows->begin[i];
        uint64_t n = (uint64_t)(rows->begin[i + 1] - begin);
        tusk_sparse_row row = {ids_from(rows, begin), values + (size_t)begin * width, n, n,
                               rows->wide};
        if (!tusk_sparse_margin(s, &row, rows->f64, out + i, sentence))
            return false;
    }
    return true;
}

/* A list for each row, shape (n, list_size). */
static bool score_lists(tusk_scorer *s, const tusk_rows *rows, double *out, char *sentence) {
    const char *x = rows->x;
    size_t width = rows->f64 ? sizeof(double) : sizeof(float);
    for (int64_t i = 0; i < rows->n; i++, out += s->list_size) {
        int64_t begin = rows->ids ? rows->begin[i] : i * rows->width;
        uint64_t n = (uint64_t)(rows->ids ? rows->begin[i + 1] - begin : rows->width);
        const char *values = x + (size_t)begin * width;
        tusk_sparse_row row = {rows->ids ? ids_from(rows, begin) : NULL, values, n, n, rows->wide};
        if (!tusk_list(s, rows->ids ? &row : NULL, values, rows->f64, n, out, sentence))
            return false;
    }
    return true;
}

static void to_answers(const tusk_scorer *s, enum tusk_answer answer, double *out, uint64_t n) {
    if (answer == TUSK_PREDICT || answer == TUSK_PREDICT_CLASS)
        tusk_to_predictions(s, out, n);
    else if (answer == TUSK_PREDICT_PROBA)
        tusk_to_probabilities(s, out, n);
}

static bool score(tusk_scorer *s, enum tusk_answer answer, const tusk_rows *rows, double *out,
                  char *sentence) {
    uint64_t n = (uint64_t)rows->n;
    if (tusk_answers_lists(answer))
        return s->null || score_lists(s, rows, out, sentence);
    if (s->null) {
        for (uint64_t i = 0; i < n; i++)
            out[i] = __builtin_nan("");
        return true;
    }
    if (rows->ids ? !score_sparse(s, rows, out, sentence)
                  : !tusk_margins(s, rows->x, rows->f64, (uint64_t)rows->width, n, out, sentence))
        return false;
    to_answers(s, answer, out, n);
    return true;
}

static tusk_stores stores_at(const char *root, char usual[LONGEST_PATH]) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_cache);
    if (!root && tusk_default_root(usual, LONGEST_PATH))
        root = usual;
    return (tusk_stores){.cache = cache, .root = root, .memory = SEALED_MEMORY};
}

/* Writes the answer for n named rows to out: one number per row, or list_size numbers where the
 * answer is a list; NaN for rows without a prediction. */
static bool score_named(tusk_scorer *s, enum tusk_answer answer, tusk_named_rows *rows, int64_t n,
                        double *out, char *sentence) {
    tusk_sparse_row features;
    bool lists = tusk_answers_lists(answer);
    uint64_t width = lists ? s->list_size : 1;
    if (!s->null && !tusk_named_match(rows, s, sentence))
        return false;
    for (int64_t i = 0; i < n; i++, out += width) {
        bool null = s->null;
        if (!null && !tusk_named_row(rows, s, (uint64_t)i, &features, &null, sentence))
            return false;
        if (null)
            for (uint64_t k = 0; k < width; k++)
                out[k] = __builtin_nan("");
        else if (!(lists ? tusk_list(s, &features, NULL, true, 0, out, sentence)
                         : tusk_sparse_margin(s, &features, true, out, sentence)))
            return false;
    }
    return true;
}

/* Reads a model for answers; an interval has a level. */
static bool read_for(tusk_text payload, const tusk_stores *stores, enum tusk_answer answer,
                     double level, tusk_scorer *s, char *sentence) {
    return tusk_read_model(payload, stores, answer, s, sentence) &&
           (!s->has_interval || tusk_set_level(s, level, sentence));
}

EXPORTED int tusk_answer_named(tusk_text payload, int answer, double level,
                               const tusk_given_column *columns, int32_t n_columns, int64_t n,
                               double *out, tusk_refusal *why) {
    char usual[LONGEST_PATH];
    tusk_scorer s;
    tusk_stores stores = stores_at(NULL, usual);
    tusk_named_rows rows = {.column = columns, .n_columns = (uint32_t)n_columns};
    *why = (tusk_refusal){.sqlstate = "22023"};
    bool done = read_for(payload, &stores, (enum tusk_answer)answer, level, &s, why->sentence) &&
                score_named(&s, (enum tusk_answer)answer, &rows, n, out, why->sentence);
    if (done)
        to_answers(&s, (enum tusk_answer)answer, out, (uint64_t)n);
    tusk_named_free(&rows);
    tusk_forget_model(&s);
    return done;
}

EXPORTED int tusk_answer_rows(tusk_text payload, int answer, double level, const char *root,
                              const tusk_rows *rows, double *out, tusk_refusal *why) {
    char usual[LONGEST_PATH];
    tusk_scorer s;
    tusk_stores stores = stores_at(root, usual);
    *why = (tusk_refusal){.sqlstate = "22023"};
    bool done = read_for(payload, &stores, (enum tusk_answer)answer, level, &s, why->sentence) &&
                score(&s, (enum tusk_answer)answer, rows, out, why->sentence);
    if (!done && s.sqlstate)
        snprintf(why->sqlstate, sizeof why->sqlstate, "%s", s.sqlstate);
    tusk_forget_model(&s);
    return done;
}

/* --- marginal effects --- */

/* Adds n rows; `given` has their form. */
static bool add_rows(tusk_effects *e, tusk_scorer *s, const tusk_weighed_rows *all,
                     tusk_effect_row given, char *sentence) {
    const tusk_rows *rows = &all->rows;
    size_t width = rows->f64 ? sizeof(double) : sizeof(float);
    for (int64_t i = 0; i < all->n; i++) {
        tusk_sparse_row sparse;
        given.at = (uint64_t)i;
        given.weight = all->weight ? all->weight[i] : 1;
        given.offset = all->offset ? all->offset[i] : 0;
        if (!given.named && rows->ids) {
            int64_t begin = rows->begin[i];
            uint64_t n = (uint64_t)(rows->begin[i + 1] - begin);
            sparse =
                (tusk_sparse_row){ids_from(rows, begin),
                                  (const char *)rows->x + (size_t)begin * width, n, n, rows->wide};
            given.sparse = &sparse;
        } else if (!given.named) {
            given.x = (const char *)rows->x + (size_t)(i * rows->width) * width;
        }
        if (!tusk_effects_add(e, s, &given, sentence))
            return false;
    }
    return true;
}

EXPORTED int64_t tusk_effects_over(tusk_text payload, const tusk_weighed_rows *all,
                                   tusk_effect *out, tusk_refusal *why) {
    char usual[LONGEST_PATH];
    tusk_scorer s;
    tusk_stores stores = stores_at(NULL, usual);
    const tusk_class_names unnamed = {0};
    tusk_named_rows named = {.column = all->columns, .n_columns = (uint32_t)all->n_columns};
    tusk_effect_row given = {.named = all->columns ? &named : NULL,
                             .d = (uint64_t)all->rows.width,
                             .f64 = all->rows.f64};
    double freedom;
    *why = (tusk_refusal){.sqlstate = "22023"};
    if (!tusk_read_model(payload, &stores, TUSK_MARGINAL_EFFECTS, &s, why->sentence))
        return -1;
    if (s.null)
        return 0;
    tusk_effects *e = tusk_effects_new(&s, payload, &unnamed, tusk_heap, why->sentence);
    bool done = e && (!given.named || tusk_named_match(&named, &s, why->sentence)) &&
                add_rows(e, &s, all, given, why->sentence);
    int64_t n = !done                   ? -1
                : tusk_effects_known(e) ? (int64_t)tusk_effects_give(e, out, &freedom)
                                        : 0;
    tusk_named_free(&named);
    free(e);
    return n;
}
