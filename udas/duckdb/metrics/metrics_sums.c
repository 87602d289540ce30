/* The metrics that are sums over rows. */
#include <string.h>

#include "../../scalars/metrics/metric.h"
#include "../../scalars/metrics/shares.h"
#include "metrics.h"

typedef struct score_state {
    tusk_score score;
} score_state;

static tusk_score *score_of(duckdb_aggregate_state state) {
    return &((score_state *)state)->score;
}

static const tusk_metric *metric_of(const overload *o) {
    return tusk_metric_of((enum tusk_metric_kind)o->kind);
}

/* For two texts it only matters whether they are equal. */
static tusk_judged judged_of(const metric_row *row) {
    if (row->kinds[1] == A_TEXT) {
        tusk_text predicted = class_text_at(row, 1);
        return (tusk_judged){
            .y = 1, .p = is_text(class_text_at(row, 0), predicted.data, predicted.length)};
    }
    return (tusk_judged){.y = label_at(row),
                         .p = number_at(row, 1),
                         .parameter = has_more(row) ? number_at(row, row->o->more) : 0};
}

/* The label in the form of class names; the text is in `own` or the vector. */
static tusk_shares labelled(const metric_row *row, char *own) {
    if (row->kinds[0] == A_TEXT) {
        tusk_text text = class_text_at(row, 0);
        return (tusk_shares){.label = text.data, .length = text.length};
    }
    return tusk_shares_of_number(number_at(row, 0), own);
}

/* Reads the row's probabilities; *known is false if one of them is NULL. */
static bool judge_shares(const metric_row *row, tusk_judged *judged, bool *known, char *sentence) {
    char own[TUSK_CLASS_TEXT];
    tusk_shares s = labelled(row, own);
    list_column map = list_column_of(row->columns[1].vector);
    column names = column_of(duckdb_struct_vector_get_child(map.child.vector, 0));
    column shares = column_of(duckdb_struct_vector_get_child(map.child.vector, 1));
    duckdb_list_entry entry = list_entry(&map, row->at);
    for (idx_t i = entry.offset; i < entry.offset + entry.length; i++) {
        duckdb_string_t *name = (duckdb_string_t *)names.data + i;
        *known = is_valid(&shares, i);
        if (!*known)
            return true;
        if (!tusk_shares_add(&s, duckdb_string_t_data(name), duckdb_string_t_length(*name),
                             ((const double *)shares.data)[i], sentence))
            return false;
    }
    return tusk_shares_judged(&s, judged, sentence);
}

/* Reads the row; *known is false if it does not count. */
static bool judge(const metric_row *row, tusk_judged *judged, bool *known, char *sentence) {
    *known = true;
    if (row->o->positive && !is_class(row, 0, sentence))
        return false;
    if (row->kinds[1] != A_SHARES)
        *judged = judged_of(row);
    else if (!judge_shares(row, judged, known, sentence))
        return false;
    judged->weight = weight_at(row);
    return true;
}

static bool score_take(duckdb_function_info info, duckdb_aggregate_state state,
                       const metric_row *row) {
    if (metric_of(row->o)->shares && lacks_positive(row)) {
        metric_refuse(info, TUSK_NO_POSITIVE);
        return false;
    }
    if (!row->o->positive && mixes_text(row)) {
        metric_refuse(info, TUSK_MIXED);
        return false;
    }
    char sentence[TUSK_SENTENCE];
    tusk_judged judged;
    bool known;
    if (judge(row, &judged, &known, sentence) &&
        (!known || tusk_score_take(score_of(state), metric_of(row->o), &judged, sentence)))
        return true;
    metric_refuse(info, sentence);
    return false;
}

static idx_t score_size(duckdb_function_info info) {
    (void)info;
    return sizeof(score_state);
}

static void score_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *(score_state *)state = (score_state){0};
}

static void score_update(duckdb_function_info info, duckdb_data_chunk chunk,
                         duckdb_aggregate_state *states) {
    each_row(info, chunk, states, CALLER, score_take);
}

static void score_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                          duckdb_aggregate_state *targets, idx_t n) {
    char sentence[TUSK_SENTENCE];
    for (idx_t i = 0; i < n; i++)
        if (!tusk_score_merge(score_of(targets[i]), score_of(sources[i]), sentence)) {
            metric_refuse(info, sentence);
            return;
        }
}

static void score_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                           duckdb_vector result, idx_t n, idx_t offset) {
    const tusk_metric *metric = metric_of(overload_of(info));
    double *out = duckdb_vector_get_data(result);
    for (idx_t i = 0; i < n; i++) {
        bool null;
        double score = tusk_score_give(score_of(states[i]), metric, &null);
        if (null)
            set_null(result, offset + i);
        else
            out[offset + i] = score;
    }
}

/* Sums own no memory; metrics.h explains why they need a destructor nevertheless. */
static void score_destroy(duckdb_aggregate_state *states, idx_t n) {
    (void)states;
    (void)n;
}

static const metric_family SUMS = {score_size,    score_init,     score_update,
                                   score_combine, score_finalize, score_destroy};

static bool register_sum(duckdb_connection connection, database *d, enum tusk_metric_kind kind,
                         bool own) {
    char name[SPELLED];
    const tusk_metric *m = tusk_metric_of(kind);
    overload o = {.database = d,
                  .name = m->name,
                  .family = &SUMS,
                  .kind = kind,
                  .n_arguments = m->parameter ? 3 : 2,
                  .more = m->parameter ? 2 : 0,
                  .third_skips = m->parameter};
    duckdb_aggregate_function_set set =
        duckdb_create_aggregate_function_set(spelled(m->name, own, name));
    bool done = true;
    bool of_classes = m->classes || m->shares;
    for (int label = A_NUMBER; label <= (of_classes ? A_NUMBER : A_BOOLEAN); label++) {
        o.arguments[0] = of_classes ? A_CLASS : (argument_kind)label;
        o.arguments[1] = m->classes ? A_CLASS : A_NUMBER;
        done = done && add_overload(set, &o) && (!m->shares || add_positive(set, &o));
    }
    o.arguments[1] = A_SHARES;
    done = done && (!m->shares || add_overload(set, &o));
    done = done && duckdb_register_aggregate_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_aggregate_function_set(&set);
    return done;
}

bool register_sums(duckdb_connection connection, database *d) {
    bool done = true;
    for (int kind = 0; kind < 2 * TUSK_METRICS; kind++)
        done = done && register_sum(connection, d, (enum tusk_metric_kind)(kind / 2), kind % 2);
    return done;
}
