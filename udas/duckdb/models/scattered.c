#include "scattered.h"

#include <stdlib.h>
#include <string.h>

#include "../../scalars/models/payload.h"

#define LEAST_ROWS 64
/* Mean length of runs of one model that need no reordering. */
#define RUN 4
#define PLACES (2 * SCATTERED_ROWS)
#define FREE UINT16_MAX
#define TOGETHER 64 /* rows whose features are copied at a time */
#define WIDEST 4096 /* features of rows that are copied */

static bool same(const duckdb_string_t *a, const duckdb_string_t *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

static bool follow_each_other(const duckdb_string_t *payloads, idx_t n) {
    idx_t runs = 1;
    for (idx_t row = 1; row < n; row++)
        runs += !same(payloads + row, payloads + row - 1);
    return runs * RUN < n;
}

/* Hash of the last bytes, which are an address, or characters of a short text. */
static uint32_t place_of(const duckdb_string_t *payload) {
    uint64_t word;
    memcpy(&word, (const char *)payload + sizeof *payload - sizeof word, sizeof word);
    return (uint32_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 32) % PLACES;
}

/* The number of the model of each row, in the order of first occurrence, and in begin[m + 1]
 * the number of rows of model m. */
static void number_models(const duckdb_string_t *payloads, idx_t n, model_order *order,
                          uint16_t *model) {
    uint16_t first[SCATTERED_ROWS], places[PLACES];
    memset(places, 0xff, sizeof places);
    order->n_models = 0;
    for (idx_t row = 0; row < n; row++) {
        uint32_t at = place_of(payloads + row);
        while (places[at] != FREE && !same(payloads + first[places[at]], payloads + row))
            at = (at + 1) % PLACES;
        if (places[at] == FREE) {
            places[at] = order->n_models;
            first[order->n_models++] = (uint16_t)row;
            order->begin[order->n_models] = 0;
        }
        model[row] = places[at];
        order->begin[model[row] + 1]++;
    }
}

static bool dense_of_one_length(const call *c) {
    const duckdb_list_entry *e = c->features.values.self.data;
    uint64_t other = 0;
    if (c->by_name || of_lists(c->o) || c->features.type.sparse || !c->features_complete)
        return false;
    for (idx_t row = 1; row < c->n; row++)
        other |= e[row].length ^ e[0].length;
    return !other && e[0].length <= WIDEST;
}

bool order_by_model(const call *c, model_order *order) {
    const duckdb_string_t *payloads = c->payloads.data;
    if (c->n < LEAST_ROWS || c->n > SCATTERED_ROWS || follow_each_other(payloads, c->n) ||
        !dense_of_one_length(c))
        return false;
    uint16_t model[SCATTERED_ROWS], next[SCATTERED_ROWS];
    number_models(payloads, c->n, order, model);
    order->begin[0] = 0;
    for (uint16_t m = 0; m < order->n_models; m++) {
        next[m] = order->begin[m];
        order->begin[m + 1] += order->begin[m];
    }
    for (idx_t row = 0; row < c->n; row++)
        order->row[next[model[row]]++] = (uint16_t)row;
    return true;
}

/* Copies the features of rows into contiguous memory. */
static void gather(const call *c, const uint16_t *rows, idx_t n, size_t size, char *out) {
    for (idx_t i = 0; i < n; i++) {
        duckdb_list_entry e = list_entry(&c->features.values, rows[i]);
        memcpy(out + i * e.length * size,
               (const char *)c->features.values.child.data + e.offset * size, e.length * size);
    }
}

/* Scores rows of one model, by its plan unless that is NULL. room: for the features of TOGETHER
 * rows. */
static bool score_rows(call *c, tusk_scorer *s, tusk_plan *plan, const uint16_t *rows, idx_t n,
                       char *room) {
    bool f64 = c->features.type.f64;
    uint64_t d = list_entry(&c->features.values, 0).length;
    char sentence[TUSK_SENTENCE];
    double out[TOGETHER];
    if (s->preparation.length)
        return refuse_prediction(c, TUSK_NEEDS_NAMES);
    for (idx_t k; n; rows += k, n -= k) {
        k = n < TOGETHER ? n : TOGETHER;
        if (!s->null) {
            gather(c, rows, k, f64 ? sizeof(double) : sizeof(float), room);
            if (!(plan ? tusk_plan_dense(plan, room, f64, d, k, out, sentence)
                       : tusk_margins(s, room, f64, d, k, out, sentence)))
                return refuse_prediction(c, sentence);
            answer_margins(c, s, out, k);
        }
        for (idx_t i = 0; i < k; i++) {
            if (s->null)
                put_null_prediction(c, rows[i]);
            else
                c->out[rows[i]] = out[i];
        }
    }
    return true;
}

static bool score_model(call *c, tusk_plan *plan, const uint16_t *rows, idx_t n, char *room) {
    if (plan)
        return score_rows(c, tusk_plan_scorer(plan), plan, rows, n, room);
    tusk_scorer s;
    bool done = read_model_of_row(c, rows[0], &s) && score_rows(c, &s, NULL, rows, n, room);
    tusk_forget_model(&s);
    return done;
}

static tusk_plan *plan_of_model(const call *c, const model_order *order, uint16_t m) {
    const uint16_t *begin = order->begin + m;
    return plan_of_row(c, order->row[begin[0]], begin[1] - begin[0]);
}

/* The next model is found before one scores its rows, so that its memory is loaded meanwhile. */
bool score_models(call *c, const model_order *order) {
    uint64_t d = list_entry(&c->features.values, 0).length;
    char *room = malloc(TOGETHER * d * sizeof(double) + 1);
    if (!room)
        return refuse_prediction(c, "out of memory");
    tusk_plan *plan = plan_of_model(c, order, 0), *next = NULL;
    bool done = true;
    for (uint16_t m = 0; done && m < order->n_models; m++, plan = next) {
        const uint16_t *begin = order->begin + m;
        next = m + 1 < order->n_models ? plan_of_model(c, order, m + 1) : NULL;
        if (next)
            tusk_plan_touch(next);
        done = score_model(c, plan, order->row + begin[0], begin[1] - begin[0], room);
    }
    free(room);
    return done;
}
