/* Writes the trainer's results into the values that finalize returns. */
#include "../emit.h"

#include <math.h>

#include "../../scalars/models/payload.h"
#include "../catching.h"
#include "../hosting/helper/answers.h"
#include "../models/model_column.h"

/* Models that are written at once, field by field. */
#define AT_ONCE 64

/* Where a field of models is written. */
typedef struct place {
    duckdb_vector vector;
    void *data;
    uint64_t *validity; /* NULL: no row is NULL yet */
    const idx_t *rows;  /* of the models */
    int64_t first, n;   /* models */
} place;

static void put_null(place *p, int64_t i) {
    if (!p->validity) {
        duckdb_vector_ensure_validity_writable(p->vector);
        p->validity = duckdb_vector_get_validity(p->vector);
    }
    duckdb_validity_set_row_invalid(p->validity, p->rows[i]);
}

static void put_entry(place *p, int64_t i, idx_t at, idx_t n) {
    ((duckdb_list_entry *)p->data)[p->rows[i]] = (duckdb_list_entry){at, n};
    if (!n)
        put_null(p, i);
}

/* Lengthens the list vector; returns where its new items begin. */
static idx_t extend(place *p, idx_t n) {
    idx_t at = duckdb_list_vector_get_size(p->vector);
    if (n) {
        duckdb_list_vector_reserve(p->vector, at + n);
        duckdb_list_vector_set_size(p->vector, at + n);
    }
    return at;
}

/* --- one function for each kind of field --- */

static void put_NUMBER(place *p, const double *x) {
    for (int64_t i = 0; i < p->n; i++) {
        ((double *)p->data)[p->rows[i]] = x[p->first + i];
        if (isnan(x[p->first + i]))
            put_null(p, i);
    }
}

static void put_COUNT(place *p, const int64_t *x) {
    for (int64_t i = 0; i < p->n; i++)
        ((int64_t *)p->data)[p->rows[i]] = x[p->first + i];
}

static void put_TRUTH(place *p, const uint8_t *x) {
    for (int64_t i = 0; i < p->n; i++)
        ((bool *)p->data)[p->rows[i]] = x[p->first + i];
}

/* Rows with the same text as the one before share its bytes, which the vector keeps. */
static void put_TEXT(place *p, tusk_strings s) {
    duckdb_string_t *text = p->data;
    const int32_t *code = s.code + p->first;
    for (int64_t i = 0; i < p->n; i++) {
        if (code[i] < 0)
            put_null(p, i);
        else if (i && code[i] == code[i - 1])
            text[p->rows[i]] = text[p->rows[i - 1]];
        else
            duckdb_vector_assign_string_element(p->vector, p->rows[i], s.pool[code[i]]);
    }
}

static void put_TEXTS(place *p, tusk_names s) {
    for (int64_t i = 0; i < p->n; i++) {
        int32_t code = s.code[p->first + i];
        if (code < 0) {
            put_entry(p, i, 0, 0);
            continue;
        }
        int64_t begin = s.begin[code], n = s.begin[code + 1] - begin;
        idx_t at = extend(p, (idx_t)n);
        duckdb_vector child = duckdb_list_vector_get_child(p->vector);
        for (int64_t k = 0; k < n; k++)
            duckdb_vector_assign_string_element(child, at + (idx_t)k, s.pool[begin + k]);
        ((duckdb_list_entry *)p->data)[p->rows[i]] = (duckdb_list_entry){at, (idx_t)n};
    }
}

static void put_NUMBERS(place *p, tusk_lists l, const bool *skipped) {
    const int64_t *ends = l.offsets + p->first;
    idx_t total = 0, at;
    for (int64_t i = 0; i < p->n; i++)
        total += skipped && skipped[i] ? 0 : (idx_t)(ends[i + 1] - ends[i]);
    at = extend(p, total);
    duckdb_vector child = duckdb_list_vector_get_child(p->vector);
    double *items = duckdb_vector_get_data(child);
    for (int64_t i = 0; i < p->n; i++) {
        const double *values = l.values + ends[i];
        idx_t n = skipped && skipped[i] ? 0 : (idx_t)(ends[i + 1] - ends[i]);
        put_entry(p, i, at, n);
        for (idx_t k = 0; k < n; k++, at++) {
            items[at] = values[k];
            if (isnan(values[k]))
                set_null(child, at);
        }
    }
}

/* Writes NULL if the model is invalid for predictions or memory is short; a prediction then
 * reports why. Notes whether the payload has the coefficients, so that their field is NULL. */
static void put_payloads(place *p, const tusk_models *m, last_payload *last, bool *in_payload) {
    for (int64_t i = 0; i < p->n; i++) {
        tusk_model_fields fields = tusk_fields_of(m, p->first + i);
        char sentence[TUSK_SENTENCE];
        in_payload[i] = false;
        if (!put_payload_of(p->vector, p->rows[i], &fields, last, sentence)) {
            put_null(p, i);
            continue;
        }
        duckdb_string_t *text = (duckdb_string_t *)p->data + p->rows[i];
        in_payload[i] = tusk_keeps_weights(
            (tusk_text){duckdb_string_t_data(text), duckdb_string_t_length(*text)});
    }
}

#define PUT_TEXT(NAME, name) put_TEXT(&f[M_##NAME], m->name);
#define PUT_TEXTS(NAME, name) put_TEXTS(&f[M_##NAME], m->name);
#define PUT_NUMBER(NAME, name) put_NUMBER(&f[M_##NAME], m->name);
#define PUT_NUMBERS(NAME, name) \
    put_NUMBERS(&f[M_##NAME], m->name, M_##NAME == M_COEF ? in_payload : NULL);
#define PUT_COUNT(NAME, name) put_COUNT(&f[M_##NAME], m->name);
#define PUT_TRUTH(NAME, name) put_TRUTH(&f[M_##NAME], m->name);
#define PUT_PAYLOAD(NAME, name)
#define PUT(NAME, name, KIND, meaning) PUT_##KIND(NAME, name)

void put_models(duckdb_vector result, const idx_t *row_of_group, const tusk_models *m) {
    idx_t rows[AT_ONCE];
    bool in_payload[AT_ONCE];
    place f[MODEL_FIELDS];
    last_payload last = {.made = false};
    for (idx_t k = 0; k < MODEL_FIELDS; k++) {
        duckdb_vector v = duckdb_struct_vector_get_child(result, k);
        f[k] = (place){.vector = v, .data = duckdb_vector_get_data(v), .rows = rows};
    }
    for (int64_t first = 0; first < m->n; first += AT_ONCE) {
        int64_t n = m->n - first < AT_ONCE ? m->n - first : AT_ONCE;
        for (int64_t i = 0; i < n; i++)
            rows[i] = row_of_group[m->group[first + i]];
        for (idx_t k = 0; k < MODEL_FIELDS; k++)
            f[k].first = first, f[k].n = n;
        put_payloads(&f[M_PAYLOAD], m, &last, in_payload);
        TUSK_MODEL_FIELDS(PUT)
    }
}

typedef struct emission {
    const answer *answer;
    const tusk_models *models;
    int64_t group;
    const char *text;
} emission;

static void put_answers(void *argument) {
    const emission *e = argument;
    const tusk_models *models = e->models;
    put_models(e->answer->result, e->answer->row, models);
    for (int64_t i = 0; i < models->n; i++)
        e->answer->emitted[models->group[i]] = true;
}

/* Result of TUSK_TRAIN. */
TUSK_EXPORT void tusk_emit_models(tusk_batch *batch, const tusk_models *models) {
    answer *a = batch->context;
    emission e = {.answer = a, .models = models};
    if (a->reply)
        reply_models(a->reply, models);
    else if (!catching(put_answers, &e))
        a->failed = true;
}

static void put_text(void *argument) {
    const emission *e = argument;
    duckdb_vector_assign_string_element(e->answer->result, answer_row(e->answer, e->group),
                                        e->text);
}

/* Result of TUSK_EXPLAIN, a group at a time. */
TUSK_EXPORT void tusk_emit_text(tusk_batch *batch, int64_t group, const char *text) {
    answer *a = batch->context;
    emission e = {.answer = a, .group = group, .text = text};
    if (a->reply)
        reply_text(a->reply, group, text);
    else if (!catching(put_text, &e))
        a->failed = true;
}
