/* The metrics that count labels and predicted classes: precision_score, recall_score, f1_score
 * and confusion. */
#include "../../scalars/metrics/classes.h"
#include "../../scalars/metrics/metric.h"
#include "metrics.h"

typedef struct classes_state {
    tusk_classes classes;
} classes_state;

static tusk_classes *classes_in(duckdb_aggregate_state state) {
    return &((classes_state *)state)->classes;
}

static bool class_at(const metric_row *row, int argument, tusk_class *c, char *sentence) {
    const char *name = argument ? "predicted" : "label";
    if (row->o->positive)
        return is_class(row, argument, sentence) &&
               tusk_class_number(c, is_positive(row, argument), name, sentence);
    if (row->kinds[argument] != A_TEXT)
        return tusk_class_number(c, number_at(row, argument), name, sentence);
    tusk_text text = class_text_at(row, argument);
    return tusk_class_text(c, text.data, text.length, name, sentence);
}

static enum tusk_class_type type_of(const metric_row *row) {
    if (row->o->positive)
        return TUSK_BOOLEAN_CLASS;
    if (row->kinds[0] == A_TEXT)
        return TUSK_TEXT_CLASS;
    return row->kinds[0] == A_BOOLEAN && row->kinds[1] == A_BOOLEAN ? TUSK_BOOLEAN_CLASS
                                                                    : TUSK_NUMBER_CLASS;
}

static bool average_at(const metric_row *row, enum tusk_average *average, char *sentence) {
    if (row->o->table) { /* confusion does not average */
        *average = TUSK_MACRO;
        return true;
    }
    tusk_text text = has_more(row) ? text_at(row, row->o->more) : (tusk_text){NULL, 0};
    return tusk_average_of(text.data, text.length, average, sentence) &&
           (!row->o->positive || tusk_one_class(*average, sentence));
}

static bool take(tusk_classes *s, const metric_row *row, char *sentence) {
    enum tusk_average average;
    tusk_class label, predicted;
    if (!row->o->positive && mixes_text(row)) {
        snprintf(sentence, TUSK_SENTENCE, TUSK_MIXED);
        return false;
    }
    s->weighted = row->o->weight;
    return average_at(row, &average, sentence) &&
           tusk_classes_are(s, type_of(row), average, sentence) &&
           class_at(row, 0, &label, sentence) && class_at(row, 1, &predicted, sentence) &&
           tusk_classes_add(s, &label, &predicted, (tusk_counts){1, weight_at(row)}, tusk_heap,
                            sentence);
}

static bool classes_take(duckdb_function_info info, duckdb_aggregate_state state,
                         const metric_row *row) {
    char sentence[TUSK_SENTENCE];
    if (take(classes_in(state), row, sentence))
        return true;
    metric_refuse(info, sentence);
    return false;
}

static idx_t classes_size(duckdb_function_info info) {
    (void)info;
    return sizeof(classes_state);
}

static void classes_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    *(classes_state *)state = (classes_state){0};
}

static void classes_destroy(duckdb_aggregate_state *states, idx_t n) {
    for (idx_t i = 0; i < n; i++)
        tusk_classes_free(classes_in(states[i]));
}

static void classes_update(duckdb_function_info info, duckdb_data_chunk chunk,
                           duckdb_aggregate_state *states) {
    each_row(info, chunk, states, CALLER, classes_take);
}

static void classes_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                            duckdb_aggregate_state *targets, idx_t n) {
    char sentence[TUSK_SENTENCE];
    for (idx_t i = 0; i < n; i++)
        if (!tusk_classes_merge(classes_in(targets[i]), classes_in(sources[i]), tusk_heap,
                                sentence)) {
            metric_refuse(info, sentence);
            return;
        }
}

static void put_score(const overload *o, const tusk_classes *s, void *work, duckdb_vector result,
                      idx_t at) {
    bool null;
    double score = tusk_classes_score(s, (enum tusk_class_metric)o->kind, work, &null);
    if (null)
        set_null(result, at);
    else
        ((double *)duckdb_vector_get_data(result))[at] = score;
}

static void put_confusion(const overload *o, const tusk_classes *s, void *work,
                          duckdb_vector result, idx_t at) {
    if (!s->n_pairs) {
        set_null(result, at);
        return;
    }
    list_writer w = list_begin(o->table, result);
    tusk_classes_write(s, work, list_rows(&w));
    list_end(&w, at);
}

static void classes_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                             duckdb_vector result, idx_t n, idx_t offset) {
    const overload *o = overload_of(info);
    for (idx_t i = 0; i < n; i++) {
        const tusk_classes *s = classes_in(states[i]);
        void *work = malloc(tusk_classes_work(s));
        if (!work) {
            metric_refuse(info, "out of memory");
            return;
        }
        if (o->table)
            put_confusion(o, s, work, result, offset + i);
        else
            put_score(o, s, work, result, offset + i);
        free(work);
    }
}

static const metric_family CLASSES = {classes_size,    classes_init,     classes_update,
                                      classes_combine, classes_finalize, classes_destroy};

static bool register_class_metric(duckdb_connection connection, database *d,
                                  enum tusk_class_metric metric, bool own) {
    char room[SPELLED];
    const char *name = tusk_class_metric_name(metric);
    bool confusion = metric == TUSK_CONFUSION;
    duckdb_aggregate_function_set set =
        duckdb_create_aggregate_function_set(spelled(name, own, room));
    bool done = true;
    for (int n = 2; n <= (confusion ? 2 : 3); n++) {
        overload o = {.database = d,
                      .name = name,
                      .family = &CLASSES,
                      .kind = metric,
                      .n_arguments = n,
                      .unweighted = n == 2 && !confusion,
                      .arguments = {A_CLASS, A_CLASS, A_TEXT},
                      .more = n == 3 ? 2 : 0,
                      .table = confusion ? tusk_confusion_table(false) : NULL,
                      .weighted_table = confusion ? tusk_confusion_table(true) : NULL};
        done = done && add_overload(set, &o);
        o.unweighted = false;
        o.positive = o.n_arguments++;
        o.arguments[o.positive] = A_TEXT;
        done = done && (n == 2 || add_overload(set, &o));
    }
    done = done && duckdb_register_aggregate_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_aggregate_function_set(&set);
    return done;
}

bool register_class_metrics(duckdb_connection connection, database *d) {
    bool done = true;
    for (int metric = 0; metric < 2 * TUSK_CLASS_METRICS; metric++)
        done = done && register_class_metric(connection, d, (enum tusk_class_metric)(metric / 2),
                                             metric % 2);
    return done;
}
