/* The aggregate that compares two predictions of the same rows. */
#include "../../scalars/metrics/compare.h"

#include "metrics.h"

enum { LABEL, A, B, METRIC };

static tusk_comparison *comparison_of(duckdb_aggregate_state state) {
    return (tusk_comparison *)state;
}

duckdb_logical_type make_comparison_type(void) {
    const char *names[1 + TUSK_COMPARISON_FIELDS] = {TUSK_COMPARISON_ROWS};
    duckdb_logical_type types[1 + TUSK_COMPARISON_FIELDS];
    for (int k = 0; k <= TUSK_COMPARISON_FIELDS; k++) {
        types[k] = duckdb_create_logical_type(k ? DUCKDB_TYPE_DOUBLE : DUCKDB_TYPE_BIGINT);
        if (k)
            names[k] = TUSK_COMPARISON_NAMES[k - 1];
    }
    duckdb_logical_type row = duckdb_create_struct_type(types, names, 1 + TUSK_COMPARISON_FIELDS);
    for (int k = 0; k <= TUSK_COMPARISON_FIELDS; k++)
        duckdb_destroy_logical_type(&types[k]);
    return row;
}

/* A prediction as a number. For texts it only matters whether it is the label. */
static double prediction_at(const metric_row *row, int argument) {
    if (row->kinds[argument] != A_TEXT)
        return number_at(row, argument);
    tusk_text predicted = class_text_at(row, argument);
    return is_text(class_text_at(row, LABEL), predicted.data, predicted.length);
}

static bool take(tusk_comparison *c, const metric_row *row, char *sentence) {
    const char *wrong = NULL;
    tusk_text metric = {"NULL", 4};
    if (is_valid(&row->columns[METRIC], row->at))
        metric = text_at(row, METRIC);
    if (!tusk_compare_by(c, metric.data, metric.length, sentence))
        return false;
    bool texts[] = {row->kinds[LABEL] == A_TEXT, row->kinds[A] == A_TEXT, row->kinds[B] == A_TEXT};
    if (texts[LABEL] != texts[A] || texts[LABEL] != texts[B])
        wrong = TUSK_MIXED_THREE;
    else if (texts[LABEL] && !tusk_compares_classes(c))
        wrong = TUSK_COMPARES_NUMBERS;
    else if (tusk_compares_classes(c) &&
             (has_rounded(row) || is_rounded(&row->columns[B], row->at)))
        wrong = TUSK_ROUNDED_CLASS;
    if (wrong) {
        snprintf(sentence, TUSK_SENTENCE, "%s", wrong);
        return false;
    }
    double y = texts[LABEL] ? 1 : number_at(row, LABEL);
    return tusk_compare_take(c, y, prediction_at(row, A), prediction_at(row, B), weight_at(row),
                             sentence);
}

static bool compare_take(duckdb_function_info info, duckdb_aggregate_state state,
                         const metric_row *row) {
    char sentence[TUSK_SENTENCE];
    if (take(comparison_of(state), row, sentence))
        return true;
    metric_refuse(info, sentence);
    return false;
}

static idx_t compare_size(duckdb_function_info info) {
    (void)info;
    return sizeof(tusk_comparison);
}

static void compare_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *comparison_of(state) = (tusk_comparison){0};
}

static void compare_update(duckdb_function_info info, duckdb_data_chunk chunk,
                           duckdb_aggregate_state *states) {
    each_row(info, chunk, states, CALLER, compare_take);
}

static void compare_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                            duckdb_aggregate_state *targets, idx_t n) {
    char sentence[TUSK_SENTENCE];
    for (idx_t i = 0; i < n; i++)
        if (!tusk_compare_merge(comparison_of(targets[i]), comparison_of(sources[i]), sentence)) {
            metric_refuse(info, sentence);
            return;
        }
}

static void put_comparison(const tusk_comparison *c, duckdb_vector result, idx_t at) {
    double found[TUSK_COMPARISON_FIELDS];
    tusk_compare_give(c, found);
    duckdb_vector rows = duckdb_struct_vector_get_child(result, 0);
    ((int64_t *)duckdb_vector_get_data(rows))[at] = c->n;
    for (int k = 0; k < TUSK_COMPARISON_FIELDS; k++) {
        duckdb_vector v = duckdb_struct_vector_get_child(result, (idx_t)k + 1);
        if (isnan(found[k]))
            set_null(v, at);
        else
            ((double *)duckdb_vector_get_data(v))[at] = found[k];
    }
}

static void compare_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                             duckdb_vector result, idx_t n, idx_t offset) {
    (void)info;
    for (idx_t i = 0; i < n; i++)
        if (comparison_of(states[i])->n)
            put_comparison(comparison_of(states[i]), result, offset + i);
        else
            set_null(result, offset + i);
}

/* States own no memory; metrics.h explains why they need a destructor nevertheless. */
static void compare_destroy(duckdb_aggregate_state *states, idx_t n) {
    (void)states;
    (void)n;
}

static const metric_family COMPARISON = {compare_size,    compare_init,     compare_update,
                                         compare_combine, compare_finalize, compare_destroy};

bool register_comparison(duckdb_connection connection, database *d) {
    bool done = true;
    for (int own = 0; own < 2; own++) {
        char name[SPELLED];
        overload o = {.database = d,
                      .name = "compare",
                      .family = &COMPARISON,
                      .n_arguments = 4,
                      .arguments = {A_CLASS, A_CLASS, A_CLASS, A_TEXT},
                      .more = B,
                      .third_skips = true,
                      .compares = true};
        duckdb_aggregate_function_set set =
            duckdb_create_aggregate_function_set(spelled(o.name, own, name));
        done = done && add_overload(set, &o) &&
               duckdb_register_aggregate_function_set(connection, set) == DuckDBSuccess;
        duckdb_destroy_aggregate_function_set(&set);
    }
    return done;
}
