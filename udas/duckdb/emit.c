/* The trainer's answers into the values that finalize returns. */
#include "catching.h"
#include "door.h"

static void put_double(duckdb_vector v, idx_t row, double x) {
    if (x != x)
        set_null(v, row);
    else
        ((double *)duckdb_vector_get_data(v))[row] = x;
}

static void put_int64(duckdb_vector v, idx_t row, int64_t x) {
    ((int64_t *)duckdb_vector_get_data(v))[row] = x;
}

static void put_string(duckdb_vector v, idx_t row, const tusk_strings *s, int64_t i) {
    if (s->code[i] < 0)
        set_null(v, row);
    else
        duckdb_vector_assign_string_element(v, row, s->pool[s->code[i]]);
}

static void put_item(duckdb_vector v, idx_t row, const tusk_lists *l, int64_t i) {
    put_list(v, row, l->values + l->offsets[i], (idx_t)(l->offsets[i + 1] - l->offsets[i]));
}

static void put_model(duckdb_vector *f, idx_t row, const tusk_models *m, int64_t i) {
    put_string(f[M_TASK], row, &m->task, i);
    put_item(f[M_COEF], row, &m->coef, i);
    put_double(f[M_INTERCEPT], row, m->intercept[i]);
    put_item(f[M_STD_ERR], row, &m->std_err, i);
    put_item(f[M_CLASSES], row, &m->classes, i);
    put_int64(f[M_N_ROWS], row, m->n_rows[i]);
    put_int64(f[M_N_SKIPPED], row, m->n_skipped[i]);
    put_int64(f[M_N_FEATURES], row, m->n_features[i]);
    put_double(f[M_LOSS], row, m->loss[i]);
    put_item(f[M_HISTORY], row, &m->history, i);
    put_int64(f[M_ITERATIONS], row, m->iterations[i]);
    ((bool *)duckdb_vector_get_data(f[M_CONVERGED]))[row] = m->converged[i];
    put_string(f[M_STATUS], row, &m->status, i);
    put_string(f[M_PLAN], row, &m->plan, i);
    put_double(f[M_SECONDS], row, m->seconds[i]);
    put_string(f[M_OPTIONS], row, &m->options, i);
    put_string(f[M_STORE], row, &m->store, i);
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

/* The trainer's answer to TUSK_TRAIN. */
TUSK_EXPORT void tusk_emit_models(tusk_batch *batch, const tusk_models *models) {
    answer *a = batch->door;
    emission e = {.answer = a, .models = models};
    if (!catching(put_models, &e))
        a->failed = true;
}

static void put_text(void *argument) {
    const emission *e = argument;
    duckdb_vector_assign_string_element(e->answer->result, answer_row(e->answer, e->group),
                                        e->text);
}

/* The trainer's answer to TUSK_EXPLAIN, a group at a time. */
TUSK_EXPORT void tusk_emit_text(tusk_batch *batch, int64_t group, const char *text) {
    answer *a = batch->door;
    emission e = {.answer = a, .group = group, .text = text};
    if (!catching(put_text, &e))
        a->failed = true;
}
