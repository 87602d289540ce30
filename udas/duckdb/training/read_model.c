/* model_from(text): the model that a text of LightGBM, XGBoost or CatBoost is; and what
 * model_to_sql calls with a model as JSON: its expression. The Python package reads both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../emit.h"
#include "../hosting/python.h"
#include "interrupt.h"

/* The rows of a chunk that have a text. Equal ones that follow each other have one spec. */
typedef struct texts {
    tusk_group *groups;
    int32_t *spec;
    tusk_spec *specs;
    idx_t *row;
    bool *emitted;
    const char **flaws;
    int64_t n;
    int32_t n_specs;
} texts;

static bool texts_new(texts *t, idx_t n) {
    t->groups = calloc(n, sizeof *t->groups);
    t->spec = calloc(n, sizeof *t->spec);
    t->specs = calloc(n, sizeof *t->specs);
    t->row = calloc(n, sizeof *t->row);
    t->emitted = calloc(n, sizeof *t->emitted);
    t->flaws = calloc(n, sizeof *t->flaws);
    return t->groups && t->spec && t->specs && t->row && t->emitted && t->flaws;
}

static void texts_free(texts *t) {
    for (int32_t i = 0; i < t->n_specs; i++)
        free((char *)t->specs[i].options);
    free(t->groups);
    free(t->spec);
    free(t->specs);
    free(t->row);
    free(t->emitted);
    free(t->flaws);
}

/* Adds a row; returns why that is impossible, or NULL. */
static const char *add_row(texts *t, const column *given, idx_t row) {
    duckdb_string_t *s = (duckdb_string_t *)given->data + row;
    const char *data = duckdb_string_t_data(s);
    size_t length = duckdb_string_t_length(*s);
    const char *last = t->n_specs ? t->specs[t->n_specs - 1].options : NULL;
    if (memchr(data, 0, length))
        return "the text has a character of code 0, expected none";
    if (!last || strlen(last) != length || memcmp(last, data, length) != 0) {
        char *copy = copy_text(s);
        if (!copy)
            return "out of memory";
        t->specs[t->n_specs++] = (tusk_spec){"", copy};
    }
    t->spec[t->n] = t->n_specs - 1;
    t->row[t->n++] = row;
    return NULL;
}

static const char *take_texts(texts *t, const column *given, idx_t n, duckdb_vector result) {
    const char *why = texts_new(t, n) ? NULL : "out of memory";
    for (idx_t row = 0; row < n && !why; row++) {
        if (is_valid(given, row))
            why = add_row(t, given, row);
        else
            set_null(result, row);
    }
    return why;
}

/* Returns why there are no results, or NULL. The sentence may be in `room`. */
static const char *read_texts(texts *t, enum tusk_request request, database *d,
                              duckdb_vector result, char room[static PYTHON_SENTENCE]) {
    if (!t->n)
        return NULL;
    if (!trainer_now() && !python_starts(room))
        return room;
    answer a = {result, t->row, t->emitted, false, d, cancels_so_far(), NULL};
    tusk_batch batch = {.n_groups = t->n,
                        .groups = t->groups,
                        .spec = t->spec,
                        .specs = t->specs,
                        .n_specs = t->n_specs,
                        .request = request,
                        .memory = d->memory,
                        .context = &a,
                        .program = "duckdb",
                        .flaws = t->flaws};
    sigint_watcher watcher = answering_begins();
    trainer_now()(&batch);
    answering_ends(watcher);
    if (a.failed)
        return "no memory for the results: raise memory_limit";
    if (batch.answered == 1)
        return NULL;
    if (!batch.error[0])
        return tusk_interrupted(request);
    return memcpy(room, batch.error, sizeof batch.error);
}

static void answer_texts(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result,
                         enum tusk_request request) {
    database *d = duckdb_scalar_function_get_extra_info(info);
    column given = chunk_column(chunk, 0);
    char room[PYTHON_SENTENCE], text[PYTHON_SENTENCE + 32];
    texts t = {0};
    const char *why = d->process == forks_so_far() ? NULL : FORKED;
    if (!why)
        why = take_texts(&t, &given, duckdb_data_chunk_get_size(chunk), result);
    if (!why)
        why = read_texts(&t, request, d, result, room);
    texts_free(&t);
    if (!why)
        return;
    snprintf(text, sizeof text, "%s: %s", tusk_request_name(request), why);
    duckdb_scalar_function_set_error(info, text);
}

static void model_from(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    answer_texts(info, chunk, result, TUSK_READ_MODEL);
}

static void write_sql(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    answer_texts(info, chunk, result, TUSK_WRITE_SQL);
}

/* Registers a function of a text. */
static bool register_text(duckdb_connection connection, database *d, const char *name,
                          duckdb_scalar_function_t run, duckdb_logical_type type) {
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, name);
    duckdb_scalar_function_set_extra_info(f, database_retain(d), database_release);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_function(f, run);
    setting_parameter(f, DUCKDB_TYPE_VARCHAR);
    return setting_register(connection, f, type);
}

bool register_read_model(duckdb_connection connection, database *d) {
    bool done = true;
    for (int own = 0; own < 2 && done; own++) {
        char room[SPELLED];
        done = register_text(connection, d, spelled("model_from", own, room), model_from,
                             make_model_type());
    }
    return done && register_text(connection, d, "_tusk_write_sql", write_sql,
                                 duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR));
}
