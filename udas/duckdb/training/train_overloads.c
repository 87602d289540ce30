/* Registers the aggregates that pass rows to the trainer. train_model and those like it have an
 * overload for each combination of types, and others for arguments of any type. */
#include <stdlib.h>

#include "train_model.h"

#define MOST_ARGUMENTS 8

static void overload_free(void *p) {
    overload *o = p;
    database_release(o->database);
    free(o);
}

void add_parameter(duckdb_aggregate_function f, duckdb_logical_type type) {
    duckdb_aggregate_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

bool add_aggregate(duckdb_aggregate_function_set set, const char *name, const overload *like,
                   void (*add_parameters)(duckdb_aggregate_function f, const overload *o),
                   duckdb_logical_type result, duckdb_aggregate_update_t update) {
    overload *o = malloc(sizeof *o);
    bool added = false;
    if (o) {
        *o = *like;
        database_retain(o->database);
        duckdb_aggregate_function f = duckdb_create_aggregate_function();
        duckdb_aggregate_function_set_name(f, name);
        add_parameters(f, o);
        duckdb_aggregate_function_set_return_type(f, result);
        duckdb_aggregate_function_set_functions(f, state_size, state_init, update, combine,
                                                finalize);
        duckdb_aggregate_function_set_destructor(f, state_destroy);
        duckdb_aggregate_function_set_special_handling(f);
        duckdb_aggregate_function_set_extra_info(f, o, overload_free);
        added = duckdb_add_aggregate_function_to_set(set, f) == DuckDBSuccess;
        duckdb_destroy_aggregate_function(&f);
    }
    duckdb_destroy_logical_type(&result);
    return added;
}

static void add_typed_parameters(duckdb_aggregate_function f, const overload *o) {
    add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR));
    add_parameter(f, duckdb_create_logical_type(o->boolean_label ? DUCKDB_TYPE_BOOLEAN
                                                                 : DUCKDB_TYPE_DOUBLE));
    add_parameter(f, make_feature_type(o->features));
    if (o->has_options)
        add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR));
}

/* The first argument has a type of its own: if it were ANY, an ENUM would not be cast to text. */
static void add_any_parameters(duckdb_aggregate_function f, const overload *o) {
    static const duckdb_type TASKS[] = {[TEXT] = DUCKDB_TYPE_VARCHAR,
                                        [NUMBER] = DUCKDB_TYPE_DOUBLE,
                                        [BOOLEAN] = DUCKDB_TYPE_BOOLEAN,
                                        [ANYTHING] = DUCKDB_TYPE_ANY};
    add_parameter(f, o->task == LIST ? make_list_type(DUCKDB_TYPE_ANY)
                                     : duckdb_create_logical_type(TASKS[o->task]));
    int typed = o->any_label_only ? 2 : o->arguments;
    for (int i = 1; i < typed; i++)
        add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_ANY));
    if (o->any_label_only) {
        add_parameter(f, make_feature_type(o->features));
        add_parameter(f, duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR));
    }
}

static duckdb_logical_type result_type(enum tusk_request request) {
    return tusk_answers_text(request) ? duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR)
                                      : make_model_type();
}

static bool add_overload(duckdb_aggregate_function_set set, const char *name, overload like) {
    return add_aggregate(
        set, name, &like, like.arguments ? add_any_parameters : add_typed_parameters,
        result_type(like.request), like.arguments ? train_update_any : train_update);
}

/* Adds overloads for arguments that do not match the other overloads' types exactly, valid or
 * not. */
static bool add_any(duckdb_aggregate_function_set set, const char *name, overload like) {
    bool done = true;
    for (like.arguments = 1; like.arguments <= MOST_ARGUMENTS; like.arguments++) {
        like.has_options = like.arguments >= FULL;
        like.task = ANYTHING;
        bool complete = like.arguments >= FULL - 1 && like.arguments <= WITH_OFFSET;
        for (int task = TEXT; complete && task < ANYTHING; task++) {
            like.task = task;
            done = done && add_overload(set, name, like);
        }
        if (!complete)
            done = done && add_overload(set, name, like);
    }
    return done;
}

/* For the binder, an integer literal such as 0 costs as much as DOUBLE as string literals cost
 * as ANY. Neither overload would be the better one, and it would choose none. So this overload
 * combines the two. */
static bool add_any_label(duckdb_aggregate_function_set set, const char *name, overload like) {
    bool done = true;
    like.arguments = FULL;
    like.has_options = like.any_label_only = true;
    for (int f = 0; f < N_FEATURE_TYPES; f++) {
        like.features = FEATURE_TYPES[f];
        done = done && add_overload(set, name, like);
    }
    return done;
}

static bool register_one(duckdb_connection connection, database *d, const char *name,
                         enum tusk_request request, bool own) {
    char room[SPELLED];
    duckdb_aggregate_function_set set =
        duckdb_create_aggregate_function_set(spelled(name, own, room));
    bool done = true;
    for (int f = 0; f < N_FEATURE_TYPES; f++)
        for (int boolean = 0; boolean < 2; boolean++)
            for (int options = 0; options < 2; options++)
                done = done && add_overload(set, name,
                                            (overload){.database = d,
                                                       .features = FEATURE_TYPES[f],
                                                       .boolean_label = boolean,
                                                       .has_options = options,
                                                       .request = request});
    overload like = {.database = d, .request = request};
    done = done && add_any(set, name, like) && add_any_label(set, name, like);
    done = done && duckdb_register_aggregate_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_aggregate_function_set(&set);
    return done;
}

bool register_train_model(duckdb_connection connection, database *d) {
    bool done = register_one(connection, d, "_tusk_send_rows", TUSK_SEND_ROWS, false) &&
                register_one(connection, d, "_tusk_take_model", TUSK_TAKE_MODEL, false) &&
                register_one(connection, d, "_tusk_pool", TUSK_POOL, false);
    for (int own = 0; own < 2; own++)
        done = done && register_one(connection, d, "train_model", TUSK_TRAIN, own) &&
               register_one(connection, d, "explain_training", TUSK_EXPLAIN, own);
    return done;
}
