/* Registers predict, predict_proba, decision and others, with an overload for each combination of
 * types. */
#include <stdio.h>
#include <stdlib.h>

#include "../any_type.h"
#include "predict.h"

static void add_parameter(duckdb_scalar_function f, duckdb_logical_type type) {
    duckdb_scalar_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

static void overload_free(void *p) {
    overload *o = p;
    database_release(o->database);
    free(o);
}

static duckdb_logical_type make_result_type(const overload *o) {
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE), found = number;
    duckdb_logical_type numbers[TUSK_INTERVAL_FIELDS];
    const char *names[TUSK_INTERVAL_FIELDS];
    for (int k = 0; k < TUSK_INTERVAL_FIELDS; k++) {
        names[k] = TUSK_INTERVAL_NAMES[k];
        numbers[k] = number;
    }
    if (of_intervals(o))
        found = duckdb_create_struct_type(numbers, names, TUSK_INTERVAL_FIELDS);
    else if (of_lists(o))
        found = duckdb_create_list_type(number);
    if (found != number)
        duckdb_destroy_logical_type(&number);
    return found;
}

static bool add_overload(duckdb_scalar_function_set set, const char *name, overload like) {
    overload *o = malloc(sizeof *o);
    if (!o)
        return false;
    *o = like;
    database_retain(o->database);
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, name);
    add_parameter(f, duckdb_create_logical_type(o->whole ? DUCKDB_TYPE_ANY : DUCKDB_TYPE_BLOB));
    add_parameter(f, o->any ? duckdb_create_logical_type(DUCKDB_TYPE_ANY)
                            : make_feature_type(o->features));
    if (o->offset || of_intervals(o))
        add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE));
    duckdb_logical_type result = make_result_type(o);
    duckdb_scalar_function_set_return_type(f, result);
    duckdb_destroy_logical_type(&result);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, o, overload_free);
    duckdb_scalar_function_set_function(f, score_chunk);
    bool added = duckdb_add_scalar_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    return added;
}

static bool register_one(duckdb_connection connection, database *d, enum tusk_answer answer,
                         bool offset) {
    char name[40];
    const char *public = offset ? TUSK_OFFSET_NAMES[answer] : TUSK_ANSWER_NAMES[answer];
    snprintf(name, sizeof name, "_tusk_%s", public);
    duckdb_scalar_function_set set = duckdb_create_scalar_function_set(name);
    bool done = true;
    overload like = {.database = d, .answer = answer, .offset = offset};
    for (int f = 0; f < N_FEATURE_TYPES; f++) {
        like.features = FEATURE_TYPES[f];
        done = done && add_overload(set, name, like);
    }
    like.any = true;
    done = done && add_overload(set, name, like);
    done = done && duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}

/* Registers the functions that take whole models, for connections without the macros. They are
 * slower: DuckDB copies a model with all its lists for each row that is joined to it. */
static bool register_whole(duckdb_connection connection, database *d, enum tusk_answer answer,
                           bool own) {
    char room[SPELLED];
    const char *name = TUSK_ANSWER_NAMES[answer]; /* the error overloads keep it */
    duckdb_scalar_function_set set = duckdb_create_scalar_function_set(spelled(name, own, room));
    bool done =
        add_overload(set, name,
                     (overload){.database = d, .answer = answer, .any = true, .whole = true}) &&
        add_refusals(set, name, 2) &&
        duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}

bool register_predict(duckdb_connection connection, database *d) {
    bool done = true;
    for (int a = 0; a < TUSK_MARGINAL_EFFECTS; a++) /* which are an aggregate's */
        done = done && register_one(connection, d, (enum tusk_answer)a, false) &&
               (!TUSK_OFFSET_NAMES[a] || register_one(connection, d, (enum tusk_answer)a, true)) &&
               (a > TUSK_DECISION || (register_whole(connection, d, (enum tusk_answer)a, false) &&
                                      register_whole(connection, d, (enum tusk_answer)a, true)));
    return done;
}
