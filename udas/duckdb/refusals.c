/* Error sentences for calls whose arguments have the wrong types, or are too few or too many. */
#include <stdio.h>
#include <string.h>

#include "any_type.h"

#define TYPES_ROOM 400
#define MOST_ARGUMENTS 8

typedef struct expected {
    const char *name;
    const char *arguments;
    const char *kinds;
    bool by_name; /* a VARCHAR as the first argument may be meant as a model's name */
} expected;

#define FEATURES                                                                                \
    "the features a row with names such as {'a': a, 'b': b}, a list of numbers such as [a, b] " \
    "or sparse(indices, values)"
#define NO_TEXT "; text becomes features in a row with names, or by hash_features"
#define TRAINING                                                       \
    "(task, label, features [, options [, weight [, offset]]])",       \
        "the label a number, a boolean or text, " FEATURES             \
        ", the options a struct such as {'l2': 0.1} or JSON as text, " \
        "weight and offset numbers" NO_TEXT
#define PREDICTION \
    "(model, features)", "the model a value that train_model answered, " FEATURES NO_TEXT
#define BY_NAME                                                                              \
    "; a model is found by its name where tuskml.load has loaded the connection, elsewhere " \
    "in tuskml.deployed: predict(d.model, ...) FROM tuskml.deployed AS d WHERE d.name = '...'"

static const expected EXPECTED[] = {
    {"train_model", TRAINING, false},
    {"explain_training", TRAINING, false},
    {"predict", PREDICTION, true},
    {"decision", PREDICTION, true},
    {"predict_proba", PREDICTION, true},
    {"predict_class", PREDICTION, true},
    {"predict_probas", PREDICTION, true},
    {"explain_prediction", PREDICTION, false},
    {"predict_interval", "(model, features [, level])",
     "the model a value that train_model answered, " FEATURES
     ", level a number between 0 and 1" NO_TEXT,
     false},
    {"model_payload", "(model)", "a value with the fields of a model, from task to options",
     false},
    {"model_summary", "(model)", "a value that train_model answered", false},
    {"sparse", "(indices, values)", "a list of whole numbers and a list of numbers", false},
};

/* --- types by name --- */

static const char *const NAMES[] = {
    [DUCKDB_TYPE_BOOLEAN] = "BOOLEAN",
    [DUCKDB_TYPE_TINYINT] = "TINYINT",
    [DUCKDB_TYPE_SMALLINT] = "SMALLINT",
    [DUCKDB_TYPE_INTEGER] = "INTEGER",
    [DUCKDB_TYPE_BIGINT] = "BIGINT",
    [DUCKDB_TYPE_UTINYINT] = "UTINYINT",
    [DUCKDB_TYPE_USMALLINT] = "USMALLINT",
    [DUCKDB_TYPE_UINTEGER] = "UINTEGER",
    [DUCKDB_TYPE_UBIGINT] = "UBIGINT",
    [DUCKDB_TYPE_FLOAT] = "FLOAT",
    [DUCKDB_TYPE_DOUBLE] = "DOUBLE",
    [DUCKDB_TYPE_TIMESTAMP] = "TIMESTAMP",
    [DUCKDB_TYPE_DATE] = "DATE",
    [DUCKDB_TYPE_TIME] = "TIME",
    [DUCKDB_TYPE_INTERVAL] = "INTERVAL",
    [DUCKDB_TYPE_HUGEINT] = "HUGEINT",
    [DUCKDB_TYPE_UHUGEINT] = "UHUGEINT",
    [DUCKDB_TYPE_VARCHAR] = "VARCHAR",
    [DUCKDB_TYPE_BLOB] = "BLOB",
    [DUCKDB_TYPE_DECIMAL] = "DECIMAL",
    [DUCKDB_TYPE_TIMESTAMP_S] = "TIMESTAMP_S",
    [DUCKDB_TYPE_TIMESTAMP_MS] = "TIMESTAMP_MS",
    [DUCKDB_TYPE_TIMESTAMP_NS] = "TIMESTAMP_NS",
    [DUCKDB_TYPE_ENUM] = "ENUM",
    [DUCKDB_TYPE_UUID] = "UUID",
    [DUCKDB_TYPE_UNION] = "UNION",
    [DUCKDB_TYPE_BIT] = "BIT",
    [DUCKDB_TYPE_TIME_TZ] = "TIME WITH TIME ZONE",
    [DUCKDB_TYPE_TIMESTAMP_TZ] = "TIMESTAMP WITH TIME ZONE",
    [DUCKDB_TYPE_BIGNUM] = "BIGNUM",
    [DUCKDB_TYPE_SQLNULL] = "NULL",
};
#define N_NAMES (sizeof NAMES / sizeof *NAMES)

/* Text in UTF-8 that grows until its buffer is full, and then ends in dots. */
typedef struct line {
    char *text;
    size_t room, used;
} line;

static bool full(const line *l) {
    return l->used + 1 >= l->room;
}

static void say(line *l, const char *text) {
    int n = snprintf(l->text + l->used, l->room - l->used, "%s", text);
    l->used += n < 0 ? 0 : (size_t)n;
    if (full(l)) {
        size_t end = l->room - 4;
        while (end && ((unsigned char)l->text[end] & 0xc0) == 0x80) /* inside a character */
            end--;
        strcpy(l->text + end, "...");
        l->used = l->room - 1;
    }
}

static void say_type(line *l, duckdb_logical_type type);

/* Takes ownership of the type. */
static void say_child(line *l, duckdb_logical_type child) {
    say_type(l, child);
    duckdb_destroy_logical_type(&child);
}

static bool child_is(duckdb_logical_type type, idx_t i, const char *name) {
    char *found = duckdb_struct_type_child_name(type, i);
    bool same = found && strcmp(found, name) == 0;
    duckdb_free(found);
    return same;
}

static void say_struct(line *l, duckdb_logical_type type) {
    idx_t n = duckdb_struct_type_child_count(type);
    if (n > 2 && child_is(type, 0, "task") && child_is(type, n - 1, "payload")) {
        say(l, "model");
        return;
    }
    say(l, "STRUCT(");
    for (idx_t i = 0; i < n && !full(l); i++) {
        char *name = duckdb_struct_type_child_name(type, i);
        say(l, i ? ", " : "");
        say(l, name ? name : "");
        say(l, " ");
        duckdb_free(name);
        say_child(l, duckdb_struct_type_child_type(type, i));
    }
    say(l, ")");
}

static void say_map(line *l, duckdb_logical_type type) {
    say(l, "MAP(");
    say_child(l, duckdb_map_type_key_type(type));
    say(l, ", ");
    say_child(l, duckdb_map_type_value_type(type));
    say(l, ")");
}

static void say_type(line *l, duckdb_logical_type type) {
    duckdb_type id = duckdb_get_type_id(type);
    char size[32];
    if (id == DUCKDB_TYPE_LIST) {
        say_child(l, duckdb_list_type_child_type(type));
        say(l, "[]");
    } else if (id == DUCKDB_TYPE_ARRAY) {
        say_child(l, duckdb_array_type_child_type(type));
        snprintf(size, sizeof size, "[%d]", (int)duckdb_array_type_array_size(type));
        say(l, size);
    } else if (id == DUCKDB_TYPE_STRUCT) {
        say_struct(l, type);
    } else if (id == DUCKDB_TYPE_MAP) {
        say_map(l, type);
    } else if (is_json_type(type)) {
        say(l, "JSON");
    } else {
        say(l, (size_t)id < N_NAMES && NAMES[id] ? NAMES[id] : "another type");
    }
}

void write_type(duckdb_vector v, char *text, size_t room) {
    line l = {text, room, 0};
    duckdb_logical_type type = duckdb_vector_get_column_type(v);
    *text = 0;
    say_type(&l, type);
    duckdb_destroy_logical_type(&type);
}

static void say_arguments(line *l, duckdb_data_chunk chunk, bool prediction) {
    idx_t n = duckdb_data_chunk_get_column_count(chunk);
    for (idx_t i = 0; i < n; i++) {
        duckdb_logical_type type =
            duckdb_vector_get_column_type(duckdb_data_chunk_get_vector(chunk, i));
        say(l, i ? ", " : "");
        if (prediction && !i && duckdb_get_type_id(type) == DUCKDB_TYPE_BLOB)
            say(l, "model"); /* the macros pass its payload */
        else
            say_type(l, type);
        duckdb_destroy_logical_type(&type);
    }
}

void write_refusal(const char *name, duckdb_data_chunk chunk, char text[REFUSAL_ROOM]) {
    char given[TYPES_ROOM] = "";
    line l = {given, sizeof given, 0};
    const expected *e = EXPECTED;
    while (strcmp(e->name, name) != 0)
        e++;
    say_arguments(&l, chunk, e->by_name);
    bool by_name = e->by_name && strncmp(given, "VARCHAR", 7) == 0;
    snprintf(text, REFUSAL_ROOM, "%s got (%s), expected %s: %s%s", name, given, e->arguments,
             e->kinds, by_name ? BY_NAME : "");
}

static void refuse_chunk(duckdb_function_info info, duckdb_data_chunk chunk,
                         duckdb_vector result) {
    (void)result;
    char text[REFUSAL_ROOM];
    write_refusal(duckdb_scalar_function_get_extra_info(info), chunk, text);
    duckdb_scalar_function_set_error(info, text);
}

bool add_refusals(duckdb_scalar_function_set set, const char *name, idx_t arguments) {
    bool done = true;
    duckdb_logical_type any = duckdb_create_logical_type(DUCKDB_TYPE_ANY);
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    for (idx_t n = 1; n <= MOST_ARGUMENTS; n++) {
        if (n == arguments)
            continue;
        duckdb_scalar_function f = duckdb_create_scalar_function();
        duckdb_scalar_function_set_name(f, name);
        for (idx_t i = 0; i < n; i++)
            duckdb_scalar_function_add_parameter(f, any);
        duckdb_scalar_function_set_return_type(f, number);
        duckdb_scalar_function_set_special_handling(f);
        duckdb_scalar_function_set_extra_info(f, (void *)name, NULL);
        duckdb_scalar_function_set_function(f, refuse_chunk);
        done = done && duckdb_add_scalar_function_to_set(set, f) == DuckDBSuccess;
        duckdb_destroy_scalar_function(&f);
    }
    duckdb_destroy_logical_type(&any);
    duckdb_destroy_logical_type(&number);
    return done;
}
