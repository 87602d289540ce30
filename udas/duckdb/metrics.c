/* log_loss, auc, accuracy, rmse, mae and r2: aggregates over a label and what a model said of it.
 *
 * A row with a NULL counts nowhere; without rows the answer is NULL. Combine reads its source and
 * leaves it as it was, because a window uses one state as the source of many.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../scalars/auc.h"
#include "../scalars/metric.h"
#include "door.h"

/* --- one chunk --- */

/* What the callbacks of one overload need to know. */
typedef struct overload {
    door *door;
    const char *name;
    const tusk_metric *metric; /* NULL: auc */
    bool boolean_label, boolean_second;
} overload;

static const overload *overload_of(duckdb_function_info info) {
    return duckdb_aggregate_function_get_extra_info(info);
}

static void refuse(duckdb_function_info info, const char *sentence) {
    char text[TUSK_SENTENCE + 32];
    snprintf(text, sizeof text, "%s: %s", overload_of(info)->name, sentence);
    duckdb_aggregate_function_set_error(info, text);
}

static double number_at(const column *c, bool boolean, idx_t row) {
    return boolean ? ((const bool *)c->data)[row] : ((const double *)c->data)[row];
}

/* The rows of a chunk without NULLs: calls body(state, y, p) until it returns false. */
#define EACH_ROW(info, chunk, body)                                                \
    do {                                                                           \
        const overload *o = overload_of(info);                                     \
        column first = chunk_column(chunk, 0), second = chunk_column(chunk, 1);    \
        idx_t n = duckdb_data_chunk_get_size(chunk);                               \
        duckdb_aggregate_state same[CHUNK_ROWS];                                   \
        states = states_of_rows(&o->door->sites, states, n, CALLER, same);         \
        if (!states) {                                                             \
            refuse(info, LONE_STATE);                                              \
            return;                                                                \
        }                                                                          \
        for (idx_t row = 0; row < n; row++)                                        \
            if (is_valid(&first, row) && is_valid(&second, row) &&                 \
                !body(info, states[row], number_at(&first, o->boolean_label, row), \
                      number_at(&second, o->boolean_second, row)))                 \
                return;                                                            \
    } while (0)

/* --- sums --- */

typedef struct score_state {
    uint64_t mark;
    tusk_score score;
} score_state;

static tusk_score *score_of(duckdb_aggregate_state state) {
    return &((score_state *)state)->score;
}

static bool score_take(duckdb_function_info info, duckdb_aggregate_state state, double y,
                       double p) {
    char sentence[TUSK_SENTENCE];
    if (tusk_score_take(score_of(state), overload_of(info)->metric, y, p, sentence))
        return true;
    refuse(info, sentence);
    return false;
}

static idx_t score_size(duckdb_function_info info) {
    (void)info;
    return sizeof(score_state);
}

static void score_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *(score_state *)state = (score_state){.mark = STATE_MARK};
}

static void score_destroy(duckdb_aggregate_state *states, idx_t n) {
    for (idx_t i = 0; i < n; i++)
        ((score_state *)states[i])->mark = 0;
}

static void score_update(duckdb_function_info info, duckdb_data_chunk chunk,
                         duckdb_aggregate_state *states) {
    EACH_ROW(info, chunk, score_take);
}

static void score_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                          duckdb_aggregate_state *targets, idx_t n) {
    char sentence[TUSK_SENTENCE];
    for (idx_t i = 0; i < n; i++)
        if (!tusk_score_merge(score_of(targets[i]), score_of(sources[i]), sentence)) {
            refuse(info, sentence);
            return;
        }
}

static void score_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                           duckdb_vector result, idx_t n, idx_t offset) {
    const tusk_metric *metric = overload_of(info)->metric;
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

/* --- auc --- */

static void *grow(void *memory, size_t bytes, void *context) {
    (void)context;
    return realloc(memory, bytes);
}

static const tusk_grow HEAP = {grow, NULL};

typedef struct auc_state {
    uint64_t mark;
    tusk_auc auc;
} auc_state;

static tusk_auc *auc_in(duckdb_aggregate_state state) {
    return &((auc_state *)state)->auc;
}

static bool auc_take(duckdb_function_info info, duckdb_aggregate_state state, double y,
                     double score) {
    char sentence[TUSK_SENTENCE];
    if (tusk_auc_take(auc_in(state), y, score, HEAP, sentence))
        return true;
    refuse(info, sentence);
    return false;
}

static idx_t auc_size(duckdb_function_info info) {
    (void)info;
    return sizeof(auc_state);
}

static void auc_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *(auc_state *)state = (auc_state){.mark = STATE_MARK};
}

static void auc_destroy(duckdb_aggregate_state *states, idx_t n) {
    for (idx_t i = 0; i < n; i++) {
        auc_state *s = (auc_state *)states[i];
        for (int l = 0; l < 2; l++)
            free(s->auc.lists[l].keys);
        *s = (auc_state){0};
    }
}

static void auc_update(duckdb_function_info info, duckdb_data_chunk chunk,
                       duckdb_aggregate_state *states) {
    EACH_ROW(info, chunk, auc_take);
}

static void auc_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                        duckdb_aggregate_state *targets, idx_t n) {
    char sentence[TUSK_SENTENCE];
    for (idx_t i = 0; i < n; i++)
        if (!tusk_auc_merge(auc_in(targets[i]), auc_in(sources[i]), HEAP, sentence)) {
            refuse(info, sentence);
            return;
        }
}

static bool auc_of(const tusk_auc *s, double *auc) {
    uint64_t *work = malloc(tusk_auc_work(s));
    if (!work)
        return false;
    *auc = tusk_auc_give(s, work, NULL);
    free(work);
    return true;
}

static void auc_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                         duckdb_vector result, idx_t n, idx_t offset) {
    double *out = duckdb_vector_get_data(result);
    for (idx_t i = 0; i < n; i++) {
        const tusk_auc *s = auc_in(states[i]);
        if (!tusk_auc_known(s)) {
            set_null(result, offset + i);
        } else if (!auc_of(s, out + offset + i)) {
            refuse(info, "out of memory");
            return;
        }
    }
}

/* --- registration --- */

static void add_parameter(duckdb_aggregate_function f, bool boolean) {
    duckdb_logical_type type =
        duckdb_create_logical_type(boolean ? DUCKDB_TYPE_BOOLEAN : DUCKDB_TYPE_DOUBLE);
    duckdb_aggregate_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

/* Sums own nothing: they are destroyed only where states_of_rows asks whether they are alive. */
static void set_callbacks(duckdb_aggregate_function f, const overload *o) {
    if (o->metric) {
        duckdb_aggregate_function_set_functions(f, score_size, score_init, score_update,
                                                score_combine, score_finalize);
        if (o->door->sites.alignment)
            duckdb_aggregate_function_set_destructor(f, score_destroy);
    } else {
        duckdb_aggregate_function_set_functions(f, auc_size, auc_init, auc_update, auc_combine,
                                                auc_finalize);
        duckdb_aggregate_function_set_destructor(f, auc_destroy);
    }
}

static void overload_free(void *p) {
    overload *o = p;
    door_release(o->door);
    free(o);
}

static bool add_overload(duckdb_aggregate_function_set set, overload like) {
    overload *o = malloc(sizeof *o);
    if (!o)
        return false;
    *o = like;
    door_retain(o->door);
    duckdb_aggregate_function f = duckdb_create_aggregate_function();
    duckdb_aggregate_function_set_name(f, o->name);
    add_parameter(f, o->boolean_label);
    add_parameter(f, o->boolean_second);
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_aggregate_function_set_return_type(f, number);
    duckdb_destroy_logical_type(&number);
    set_callbacks(f, o);
    duckdb_aggregate_function_set_special_handling(f);
    duckdb_aggregate_function_set_extra_info(f, o, overload_free);
    bool added = duckdb_add_aggregate_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_aggregate_function(&f);
    return added;
}

static bool register_one(duckdb_connection connection, door *d, const char *name,
                         const tusk_metric *m) {
    duckdb_aggregate_function_set set = duckdb_create_aggregate_function_set(name);
    bool done = true;
    for (int second = 0; second <= (m && m->boolean_second); second++)
        for (int label = 0; label < 2; label++)
            done = done && add_overload(set, (overload){d, name, m, label, second});
    done = done && duckdb_register_aggregate_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_aggregate_function_set(&set);
    return done;
}

bool register_metrics(duckdb_connection connection, door *d) {
    bool done = register_one(connection, d, "auc", NULL);
    for (int kind = 0; kind < TUSK_METRICS; kind++) {
        const tusk_metric *m = tusk_metric_of((enum tusk_metric_kind)kind);
        done = done && register_one(connection, d, m->name, m);
    }
    return done;
}
