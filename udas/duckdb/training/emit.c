/* Writes the trainer's results into the values that finalize returns. */
#include "../emit.h"
#include "../../scalars/models/payload.h"
#include "../catching.h"
#include "../hosting/helper/answers.h"
#include "../models/payload_column.h"

/* --- one function for each kind of field --- */

#define AT duckdb_vector v, idx_t row

static void put_NUMBER(AT, const double *x, int64_t i) {
    if (x[i] != x[i])
        set_null(v, row);
    else
        ((double *)duckdb_vector_get_data(v))[row] = x[i];
}

static void put_COUNT(AT, const int64_t *x, int64_t i) {
    ((int64_t *)duckdb_vector_get_data(v))[row] = x[i];
}

static void put_TRUTH(AT, const uint8_t *x, int64_t i) {
    ((bool *)duckdb_vector_get_data(v))[row] = x[i];
}

static void put_TEXT(AT, tusk_strings s, int64_t i) {
    if (s.code[i] < 0)
        set_null(v, row);
    else
        duckdb_vector_assign_string_element(v, row, s.pool[s.code[i]]);
}

static void put_TEXTS(AT, tusk_names s, int64_t i) {
    if (s.code[i] < 0) {
        set_null(v, row);
        return;
    }
    int64_t begin = s.begin[s.code[i]], n = s.begin[s.code[i] + 1] - begin;
    idx_t at = duckdb_list_vector_get_size(v);
    duckdb_list_vector_reserve(v, at + (idx_t)n);
    duckdb_list_vector_set_size(v, at + (idx_t)n);
    duckdb_vector child = duckdb_list_vector_get_child(v);
    for (int64_t k = 0; k < n; k++)
        duckdb_vector_assign_string_element(child, at + (idx_t)k, s.pool[begin + k]);
    ((duckdb_list_entry *)duckdb_vector_get_data(v))[row] = (duckdb_list_entry){at, (idx_t)n};
}

static void put_NUMBERS(AT, tusk_lists l, int64_t i) {
    put_list(v, row, l.values + l.offsets[i], (idx_t)(l.offsets[i + 1] - l.offsets[i]));
}

/* Writes NULL if the model is invalid for predictions or memory is short; a prediction then
 * reports why. Returns whether the payload has the coefficients, so that their field is NULL. */
static bool put_payload(AT, const tusk_models *m, int64_t i) {
    tusk_model_fields fields = tusk_fields_of(m, i);
    char sentence[TUSK_SENTENCE];
    if (!put_payload_of(v, row, &fields, sentence)) {
        set_null(v, row);
        return false;
    }
    duckdb_string_t *text = (duckdb_string_t *)duckdb_vector_get_data(v) + row;
    return tusk_keeps_weights(
        (tusk_text){duckdb_string_t_data(text), duckdb_string_t_length(*text)});
}

#define PUT_TEXT(NAME, name) put_TEXT(f[M_##NAME], row, m->name, i);
#define PUT_TEXTS(NAME, name) put_TEXTS(f[M_##NAME], row, m->name, i);
#define PUT_NUMBER(NAME, name) put_NUMBER(f[M_##NAME], row, m->name, i);
#define PUT_NUMBERS(NAME, name)           \
    if (M_##NAME == M_COEF && in_payload) \
        set_null(f[M_##NAME], row);       \
    else                                  \
        put_NUMBERS(f[M_##NAME], row, m->name, i);
#define PUT_COUNT(NAME, name) put_COUNT(f[M_##NAME], row, m->name, i);
#define PUT_TRUTH(NAME, name) put_TRUTH(f[M_##NAME], row, m->name, i);
#define PUT_PAYLOAD(NAME, name)
#define PUT(NAME, name, KIND, meaning) PUT_##KIND(NAME, name)

static void put_model(duckdb_vector *f, idx_t row, const tusk_models *m, int64_t i) {
    bool in_payload = put_payload(f[M_PAYLOAD], row, m, i);
    TUSK_MODEL_FIELDS(PUT)
}

void put_first_model(duckdb_vector result, idx_t row, const tusk_models *m) {
    duckdb_vector fields[MODEL_FIELDS];
    for (idx_t f = 0; f < MODEL_FIELDS; f++)
        fields[f] = duckdb_struct_vector_get_child(result, f);
    put_model(fields, row, m, 0);
}

typedef struct emission {
    const answer *answer;
    const tusk_models *models;
    int64_t group;
    const char *text;
} emission;

static void put_models(void *argument) {
    const emission *e = argument;
    const tusk_models *models = e->models;
    duckdb_vector fields[MODEL_FIELDS];
    for (idx_t f = 0; f < MODEL_FIELDS; f++)
        fields[f] = duckdb_struct_vector_get_child(e->answer->result, f);
    for (int64_t i = 0; i < models->n; i++)
        put_model(fields, answer_row(e->answer, models->group[i]), models, i);
}

/* Result of TUSK_TRAIN. */
TUSK_EXPORT void tusk_emit_models(tusk_batch *batch, const tusk_models *models) {
    answer *a = batch->context;
    emission e = {.answer = a, .models = models};
    if (a->reply)
        reply_models(a->reply, models);
    else if (!catching(put_models, &e))
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
