/* The metrics that rank the scores of all rows: auc, ks, psi, average_precision, roc_curve,
 * precision_recall_curve, calibration, lift and those at k. */
#include "../../scalars/metrics/curves.h"
#include "metrics.h"

typedef struct scored_state {
    tusk_scored scored;
} scored_state;

static tusk_scored *scored_in(duckdb_aggregate_state state) {
    return &((scored_state *)state)->scored;
}

static enum tusk_ranking_kind kind_of(const overload *o) {
    return (enum tusk_ranking_kind)o->kind;
}

static int64_t bins_of(const metric_row *row) {
    return has_more(row) ? ((const int64_t *)row->columns[row->o->more].data)[row->at]
                         : tusk_default_bins(tusk_ranking_of(kind_of(row->o)));
}

static bool scored_take(duckdb_function_info info, duckdb_aggregate_state state,
                        const metric_row *row) {
    char sentence[TUSK_SENTENCE];
    const tusk_ranking *ranking = tusk_ranking_of(kind_of(row->o));
    if (lacks_positive(row)) {
        metric_refuse(info, ranking->at_k ? TUSK_TEXT_AT_K : TUSK_NO_POSITIVE);
        return false;
    }
    if (row->o->positive && !is_class(row, 0, sentence)) {
        metric_refuse(info, sentence);
        return false;
    }
    tusk_ranked ranked = {label_at(row), number_at(row, 1), bins_of(row), weight_at(row)};
    scored_in(state)->weighted = row->o->weight;
    if (tusk_scored_take(scored_in(state), ranking, &ranked, tusk_heap, sentence))
        return true;
    metric_refuse(info, sentence);
    return false;
}

static idx_t scored_size(duckdb_function_info info) {
    (void)info;
    return sizeof(scored_state);
}

static void scored_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *(scored_state *)state = (scored_state){0};
}

static void scored_destroy(duckdb_aggregate_state *states, idx_t n) {
    for (idx_t i = 0; i < n; i++) {
        scored_state *s = (scored_state *)states[i];
        tusk_scored_free(&s->scored);
        *s = (scored_state){0};
    }
}

static void scored_update(duckdb_function_info info, duckdb_data_chunk chunk,
                          duckdb_aggregate_state *states) {
    each_row(info, chunk, states, CALLER, scored_take);
}

static void scored_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                           duckdb_aggregate_state *targets, idx_t n) {
    const tusk_ranking *ranking = tusk_ranking_of(kind_of(overload_of(info)));
    char sentence[TUSK_SENTENCE];
    for (idx_t i = 0; i < n; i++)
        if (!tusk_scored_merge(scored_in(targets[i]), scored_in(sources[i]), ranking, tusk_heap,
                               sentence)) {
            metric_refuse(info, sentence);
            return;
        }
}

static void put_number(const overload *o, const tusk_ranks *ranks, int64_t k, duckdb_vector result,
                       idx_t at) {
    bool null;
    double number = tusk_ranks_number(ranks, kind_of(o), k, &null);
    if (null)
        set_null(result, at);
    else
        ((double *)duckdb_vector_get_data(result))[at] = number;
}

static void put_table(const overload *o, const tusk_ranks *ranks, int64_t bins,
                      duckdb_vector result, idx_t at) {
    if (!tusk_ranks_known(ranks, kind_of(o))) {
        set_null(result, at);
        return;
    }
    list_writer w = list_begin(o->table, result);
    tusk_ranks_write(ranks, kind_of(o), bins, list_rows(&w));
    list_end(&w, at);
}

static bool give(const overload *o, const tusk_scored *s, duckdb_vector result, idx_t at) {
    uint64_t *work = malloc(tusk_scored_work(s) + 1);
    if (!work)
        return false;
    tusk_ranks ranks = tusk_rank(s, work, NULL);
    if (o->table)
        put_table(o, &ranks, s->bins, result, at);
    else
        put_number(o, &ranks, s->bins, result, at);
    free(work);
    return true;
}

static void scored_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                            duckdb_vector result, idx_t n, idx_t offset) {
    for (idx_t i = 0; i < n; i++)
        if (!give(overload_of(info), scored_in(states[i]), result, offset + i)) {
            metric_refuse(info, "out of memory");
            return;
        }
}

static const metric_family RANKINGS = {scored_size,    scored_init,     scored_update,
                                       scored_combine, scored_finalize, scored_destroy};

static bool register_ranking(duckdb_connection connection, database *d,
                             enum tusk_ranking_kind kind, bool own) {
    char name[SPELLED];
    const tusk_ranking *r = tusk_ranking_of(kind);
    duckdb_aggregate_function_set set =
        duckdb_create_aggregate_function_set(spelled(r->name, own, name));
    bool done = true, named = !r->at_k && !r->graded;
    for (int n = 2; n <= (tusk_has_bins(r) ? 3 : 2); n++) {
        overload o = {.database = d,
                      .name = r->name,
                      .family = &RANKINGS,
                      .kind = kind,
                      .n_arguments = n,
                      .arguments = {r->graded ? A_NUMBER : A_CLASS, A_NUMBER, A_WHOLE},
                      .unweighted = (n == 2 && r->bins) || r->at_k,
                      .more = n == 3 ? 2 : 0,
                      .table = tusk_ranking_table(kind)};
        done = done && add_overload(set, &o) && (!named || add_positive(set, &o));
        o.arguments[0] = A_BOOLEAN;
        done = done && (!r->graded || add_overload(set, &o));
    }
    done = done && duckdb_register_aggregate_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_aggregate_function_set(&set);
    return done;
}

bool register_rankings(duckdb_connection connection, database *d) {
    bool done = true;
    for (int kind = 0; kind < 2 * TUSK_RANKINGS; kind++)
        done =
            done && register_ranking(connection, d, (enum tusk_ranking_kind)(kind / 2), kind % 2);
    return done;
}
