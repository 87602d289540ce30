#include "model_column.h"

#include <string.h>

#include "../../scalars/models/kinds.h"
#include "../../scalars/models/payload.h"

enum used_field { U_TASK, U_COEF, U_INTERCEPT, U_CLASSES, U_OPTIONS, USED_FIELDS };
static const enum model_field USED[USED_FIELDS] = {M_TASK, M_COEF, M_INTERCEPT, M_CLASSES,
                                                   M_OPTIONS};

duckdb_vector field_of(duckdb_vector v, const char *name) {
    duckdb_logical_type whole = duckdb_vector_get_column_type(v);
    duckdb_vector field = NULL;
    if (duckdb_get_type_id(whole) == DUCKDB_TYPE_STRUCT) {
        idx_t n = duckdb_struct_type_child_count(whole);
        for (idx_t i = 0; i < n && !field; i++) {
            char *found = duckdb_struct_type_child_name(whole, i);
            if (found && strcmp(found, name) == 0)
                field = duckdb_struct_vector_get_child(v, i);
            duckdb_free(found);
        }
    }
    duckdb_destroy_logical_type(&whole);
    return field;
}

static bool is_of_type(duckdb_vector v, duckdb_type id) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    bool same = duckdb_get_type_id(type) == id;
    duckdb_destroy_logical_type(&type);
    return same;
}

bool is_null_type(duckdb_vector v) {
    return is_of_type(v, DUCKDB_TYPE_SQLNULL);
}

bool names_of_any(duckdb_vector v, idx_t n, scratch *s, list_column *l) {
    *l = (list_column){0};
    duckdb_logical_type type = v ? duckdb_vector_get_column_type(v) : NULL;
    bool list = v && duckdb_get_type_id(type) == DUCKDB_TYPE_LIST;
    if (v)
        duckdb_destroy_logical_type(&type);
    if (!list)
        return all_null(n, s, &l->self);
    l->self = column_of(v);
    return text_of_any(duckdb_list_vector_get_child(v), duckdb_list_vector_get_size(v), s,
                       &l->child);
}

static bool no_models(idx_t n, scratch *s, model_column *m) {
    column none = {0};
    if (!all_null(n, s, &none))
        return false;
    list_column list = {none, none, 0};
    *m = (model_column){none, none, none, none, none, none, none, list, list, list, list};
    return true;
}

bool model_column_of_any(duckdb_vector v, idx_t n, scratch *s, model_column *m) {
    if (is_null_type(v))
        return no_models(n, s, m);
    duckdb_vector f[USED_FIELDS];
    for (int i = 0; i < USED_FIELDS; i++)
        if (!(f[i] = field_of(v, MODEL_FIELD[USED[i]].name)))
            return false;
    m->self = column_of(v);
    duckdb_vector preparation = field_of(v, MODEL_FIELD[M_PREPARATION].name);
    duckdb_vector payload = field_of(v, MODEL_FIELD[M_PAYLOAD].name);
    duckdb_vector iterations = field_of(v, MODEL_FIELD[M_ITERATIONS].name);
    duckdb_vector spread = field_of(v, MODEL_FIELD[M_SPREAD].name);
    m->spread = (list_column){0};
    bool blob = payload && is_of_type(payload, DUCKDB_TYPE_BLOB); /* else it has no trees */
    if (!(blob ? (m->payload = column_of(payload), true) : all_null(n, s, &m->payload)) ||
        !(iterations ? numbers_of_any(iterations, n, s, &m->iterations, NULL)
                     : all_null(n, s, &m->iterations)) ||
        !(spread ? numbers_list_of_any(spread, n, s, &m->spread, NULL)
                 : all_null(n, s, &m->spread.self)))
        return false;
    return (preparation ? text_of_any(preparation, n, s, &m->preparation)
                        : all_null(n, s, &m->preparation)) &&
           text_of_any(f[U_TASK], n, s, &m->task) &&
           text_of_any(f[U_OPTIONS], n, s, &m->options) &&
           numbers_of_any(f[U_INTERCEPT], n, s, &m->intercept, NULL) &&
           numbers_list_of_any(f[U_COEF], n, s, &m->coef, NULL) &&
           numbers_list_of_any(f[U_CLASSES], n, s, &m->classes, NULL) &&
           names_of_any(field_of(v, MODEL_FIELD[M_CLASS_NAMES].name), n, s, &m->class_names);
}

tusk_text text_in(const column *c, idx_t row) {
    if (!is_valid(c, row))
        return (tusk_text){NULL, 0};
    duckdb_string_t *s = (duckdb_string_t *)c->data + row;
    return (tusk_text){duckdb_string_t_data(s), duckdb_string_t_length(*s)};
}

static tusk_numbers numbers_at(const list_column *l, idx_t row) {
    if (!is_valid(&l->self, row))
        return (tusk_numbers){NULL, 0, true};
    duckdb_list_entry e = list_entry(l, row);
    return (tusk_numbers){(const double *)l->child.data + e.offset, e.length,
                          all_valid(&l->child, e.offset, e.length)};
}

static tusk_text text_of_column(const void *names, uint64_t k) {
    return text_in(names, k);
}

static tusk_class_names names_at(const list_column *l, idx_t row) {
    if (!is_valid(&l->self, row))
        return (tusk_class_names){0};
    duckdb_list_entry e = list_entry(l, row);
    return (tusk_class_names){text_of_column, &l->child, e.offset, e.length};
}

tusk_model_fields model_fields_at(const model_column *m, idx_t row) {
    return (tusk_model_fields){
        .task = text_in(&m->task, row),
        .options = text_in(&m->options, row),
        .preparation = text_in(&m->preparation, row),
        .coef = numbers_at(&m->coef, row),
        .classes = numbers_at(&m->classes, row),
        .spread = numbers_at(&m->spread, row),
        .class_names = names_at(&m->class_names, row),
        .has_intercept = is_valid(&m->intercept, row),
        .intercept = ((const double *)m->intercept.data)[row],
    };
}

static bool has_no_coef(const model_column *m, idx_t row) {
    return !is_valid(&m->coef.self, row);
}

bool has_weights_in_payload(const model_column *m, idx_t row) {
    return has_no_coef(m, row) && tusk_keeps_weights(text_in(&m->payload, row));
}

const char *weights_lost(const model_column *m, idx_t row) {
    bool trained = is_valid(&m->iterations, row) && ((const double *)m->iterations.data)[row] > 0;
    const tusk_model_kind *kind = tusk_kind_named(text_in(&m->task, row));
    return trained && has_no_coef(m, row) && kind && kind->lost ? kind->lost : NULL;
}
