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

static model_column model_of_fields(duckdb_vector v, duckdb_vector *fields) {
    return (model_column){.self = column_of(v),
                          .task = column_of(fields[U_TASK]),
                          .coef = list_column_of(fields[U_COEF]),
                          .intercept = column_of(fields[U_INTERCEPT]),
                          .classes = list_column_of(fields[U_CLASSES]),
                          .options = column_of(fields[U_OPTIONS])};
}

model_column model_column_of(duckdb_vector v) {
    duckdb_vector fields[USED_FIELDS];
    for (idx_t i = 0; i < USED_FIELDS; i++)
        fields[i] = duckdb_struct_vector_get_child(v, i);
    return model_of_fields(v, fields);
}

static bool has_type(duckdb_vector v, duckdb_type type, bool list) {
    duckdb_logical_type found = duckdb_vector_get_column_type(v);
    duckdb_type id = duckdb_get_type_id(found);
    duckdb_destroy_logical_type(&found);
    if (!list)
        return id == type;
    return id == DUCKDB_TYPE_LIST && has_type(duckdb_list_vector_get_child(v), type, false);
}

duckdb_vector field_of(duckdb_vector v, const char *name, duckdb_type type, bool list) {
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
    return field && has_type(field, type, list) ? field : NULL;
}

static bool no_models(duckdb_vector v, idx_t n, scratch *s, model_column *m) {
    column none = {0};
    if (!has_type(v, DUCKDB_TYPE_SQLNULL, false) || !all_null(n, s, &none))
        return false;
    list_column list = {none, none, 0};
    *m = (model_column){none, none, none, none, list, list};
    return true;
}

bool model_column_of_any(duckdb_vector v, idx_t n, scratch *s, model_column *m) {
    duckdb_vector fields[USED_FIELDS];
    for (int i = 0; i < USED_FIELDS; i++) {
        fields[i] = field_of(v, USED[i].name, USED[i].type, USED[i].list);
        if (!fields[i])
            return no_models(v, n, s, m);
    }
    *m = model_of_fields(v, fields);
    return true;
}
