/* Registers the metrics' aggregates. */
#include "metrics.h"

void metric_refuse(duckdb_function_info info, const char *sentence) {
    char text[TUSK_SENTENCE + 32];
    snprintf(text, sizeof text, "%s: %s", overload_of(info)->name, sentence);
    duckdb_aggregate_function_set_error(info, text);
}

/* The probabilities of classes by their names, as predict_probas returns them. */
static duckdb_logical_type make_shares_type(void) {
    duckdb_logical_type key = duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR);
    duckdb_logical_type value = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_logical_type map = duckdb_create_map_type(key, value);
    duckdb_destroy_logical_type(&key);
    duckdb_destroy_logical_type(&value);
    return map;
}

static void add_parameter(duckdb_aggregate_function f, argument_kind kind) {
    static const duckdb_type TYPES[] = {[A_NUMBER] = DUCKDB_TYPE_DOUBLE,
                                        [A_BOOLEAN] = DUCKDB_TYPE_BOOLEAN,
                                        [A_TEXT] = DUCKDB_TYPE_VARCHAR,
                                        [A_WHOLE] = DUCKDB_TYPE_BIGINT,
                                        [A_CLASS] = DUCKDB_TYPE_ANY};
    duckdb_logical_type type =
        kind == A_SHARES ? make_shares_type() : duckdb_create_logical_type(TYPES[kind]);
    duckdb_aggregate_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

static void overload_free(void *p) {
    overload *o = p;
    database_release(o->database);
    free(o);
}

static void describe(duckdb_aggregate_function f, const overload *o) {
    const metric_family *family = o->family;
    duckdb_aggregate_function_set_name(f, o->name);
    for (int i = 0; i < o->n_arguments; i++)
        add_parameter(f, o->arguments[i]);
    duckdb_logical_type result = o->compares ? make_comparison_type()
                                 : o->table  ? make_table_type(o->table)
                                             : duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_aggregate_function_set_return_type(f, result);
    duckdb_destroy_logical_type(&result);
    duckdb_aggregate_function_set_functions(f, family->size, family->init, family->update,
                                            family->combine, family->finalize);
    duckdb_aggregate_function_set_destructor(f, family->destroy);
    duckdb_aggregate_function_set_special_handling(f);
}

static bool add_one(duckdb_aggregate_function_set set, const overload *like) {
    overload *o = malloc(sizeof *o);
    if (!o)
        return false;
    *o = *like;
    database_retain(o->database);
    duckdb_aggregate_function f = duckdb_create_aggregate_function();
    describe(f, o);
    duckdb_aggregate_function_set_extra_info(f, o, overload_free);
    bool added = duckdb_add_aggregate_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_aggregate_function(&f);
    return added;
}

bool add_overload(duckdb_aggregate_function_set set, const overload *like) {
    if (!add_one(set, like))
        return false;
    if (like->unweighted)
        return true;
    overload weighted = *like;
    weighted.weight = weighted.n_arguments++;
    weighted.arguments[weighted.weight] = A_NUMBER;
    if (like->weighted_table)
        weighted.table = like->weighted_table;
    return add_one(set, &weighted);
}

bool add_positive(duckdb_aggregate_function_set set, const overload *like) {
    overload o = *like;
    memmove(o.arguments + 3, o.arguments + 2, sizeof *o.arguments * (METRIC_ARGUMENTS - 3));
    o.more += o.more ? 1 : 0;
    o.n_arguments++;
    o.positive = 2;
    o.arguments[o.positive] = A_TEXT;
    return add_overload(set, &o);
}

static bool class_column(duckdb_vector v, idx_t n, metric_chunk *c, int argument) {
    column *found = &c->columns[argument];
    bool boolean;
    if (!is_label_text(v)) {
        if (!label_of_any(v, n, &c->scratch, found, &boolean))
            return false;
        c->kinds[argument] = boolean ? A_BOOLEAN : A_NUMBER;
        c->rounded |= found->rounded != NULL;
        return true;
    }
    tusk_text *texts;
    *found = column_of(v);
    if (!texts_of_any(v, n, &c->scratch, &texts))
        return false;
    found->data = texts;
    c->kinds[argument] = A_TEXT;
    return true;
}

bool metric_chunk_of(duckdb_data_chunk chunk, const overload *o, metric_chunk *c, char *sentence) {
    idx_t n = duckdb_data_chunk_get_size(chunk);
    *c = (metric_chunk){0};
    for (int i = 0; i < o->n_arguments; i++) {
        duckdb_vector v = duckdb_data_chunk_get_vector(chunk, (idx_t)i);
        c->kinds[i] = o->arguments[i];
        if (o->arguments[i] != A_CLASS) {
            c->columns[i] = column_of(v);
        } else if (!class_column(v, n, c, i)) {
            char type[200];
            write_type(v, type, sizeof type);
            if (c->scratch.out_of_memory)
                snprintf(sentence, TUSK_SENTENCE, "out of memory");
            else
                snprintf(sentence, TUSK_SENTENCE, "%s is %s, expected a number, a boolean or text",
                         i ? "predicted" : "label", type);
            return false;
        }
    }
    return true;
}

bool register_metrics(duckdb_connection connection, database *d) {
    return register_sums(connection, d) && register_comparison(connection, d) &&
           register_rankings(connection, d) && register_class_metrics(connection, d);
}
