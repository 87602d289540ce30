#include "model_column.h"

#include <string.h>

static const struct used {
    const char *name;
    duckdb_type type;
    bool list;
} USED[USED_FIELDS] = {
    [U_TASK] = {"task", DUCKDB_TYPE_VARCHAR, false},
    [U_COEF] = {"coef", DUCKDB_TYPE_DOUBLE, true},
    [U_INTERCEPT] = {"intercept", DUCKDB_TYPE_DOUBLE, false},
    [U_CLASSES] = {"classes", DUCKDB_TYPE_DOUBLE, true},
    [U_OPTIONS] = {"options", DUCKDB_TYPE_VARCHAR, false},
};

duckdb_logical_type make_used_type(void) {
    duckdb_logical_type types[USED_FIELDS];
    const char *names[USED_FIELDS];
    for (int i = 0; i < USED_FIELDS; i++) {
        names[i] = USED[i].name;
        types[i] =
            USED[i].list ? make_list_type(USED[i].type) : duckdb_create_logical_type(USED[i].type);
    }
    duckdb_logical_type used = duckdb_create_struct_type(types, names, USED_FIELDS);
    for (int i = 0; i < USED_FIELDS; i++)
        duckdb_destroy_logical_type(&types[i]);
    return used;
}

model_column model_column_of(duckdb_vector v) {
    return (model_column){
        .self = column_of(v),
        .task = column_of(duckdb_struct_vector_get_child(v, U_TASK)),
        .coef = list_column_of(duckdb_struct_vector_get_child(v, U_COEF)),
        .intercept = column_of(duckdb_struct_vector_get_child(v, U_INTERCEPT)),
        .classes = list_column_of(duckdb_struct_vector_get_child(v, U_CLASSES)),
        .options = column_of(duckdb_struct_vector_get_child(v, U_OPTIONS)),
    };
}

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

static bool is_null_type(duckdb_vector v) {
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    bool null = duckdb_get_type_id(type) == DUCKDB_TYPE_SQLNULL;
    duckdb_destroy_logical_type(&type);
    return null;
}

static bool no_models(idx_t n, scratch *s, model_column *m) {
    column none = {0};
    if (!all_null(n, s, &none))
        return false;
    list_column list = {none, none, 0};
    *m = (model_column){none, none, none, none, list, list};
    return true;
}

bool model_column_of_any(duckdb_vector v, idx_t n, scratch *s, model_column *m) {
    if (is_null_type(v))
        return no_models(n, s, m);
    duckdb_vector f[USED_FIELDS];
    for (int i = 0; i < USED_FIELDS; i++)
        if (!(f[i] = field_of(v, USED[i].name)))
            return false;
    m->self = column_of(v);
    return text_of_any(f[U_TASK], n, s, &m->task) &&
           text_of_any(f[U_OPTIONS], n, s, &m->options) &&
           numbers_of_any(f[U_INTERCEPT], n, s, &m->intercept, NULL) &&
           numbers_list_of_any(f[U_COEF], n, s, &m->coef, NULL) &&
           numbers_list_of_any(f[U_CLASSES], n, s, &m->classes, NULL);
}
