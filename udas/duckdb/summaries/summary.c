/* model_summary(model): returns a list with a STRUCT for each coefficient, the intercept first.
 * The macro of the same name turns it into rows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../scalars/clusters/clusters.h"
#include "../../scalars/models/json_member.h"
#include "../../scalars/models/kinds.h"
#include "../../scalars/models/note.h"
#include "../../scalars/models/payload.h"
#include "../../scalars/models/quoted.h"
#include "../../scalars/ratio.h"
#include "../../scalars/student.h"
#include "../any_type.h"
#include "../models/model_column.h"
#include "distribution.h"

enum term_field {
    T_FEATURE,
    T_TERM,
    T_ESTIMATE,
    T_STD_ERR,
    T_TEST,
    T_STATISTIC,
    T_P_VALUE,
    T_LOWER,
    T_UPPER,
    T_RATIO,
    T_NOTE,
    TERM_FIELDS
};

static const struct term_type {
    const char *name;
    duckdb_type type;
} TERM[TERM_FIELDS] = {
    [T_FEATURE] = {"feature", DUCKDB_TYPE_INTEGER},
    [T_TERM] = {"term", DUCKDB_TYPE_VARCHAR},
    [T_ESTIMATE] = {"estimate", DUCKDB_TYPE_DOUBLE},
    [T_STD_ERR] = {"std_err", DUCKDB_TYPE_DOUBLE},
    [T_TEST] = {"test", DUCKDB_TYPE_VARCHAR},
    [T_STATISTIC] = {"statistic", DUCKDB_TYPE_DOUBLE},
    [T_P_VALUE] = {"p_value", DUCKDB_TYPE_DOUBLE},
    [T_LOWER] = {"lower", DUCKDB_TYPE_DOUBLE},
    [T_UPPER] = {"upper", DUCKDB_TYPE_DOUBLE},
    [T_RATIO] = {"ratio", DUCKDB_TYPE_DOUBLE},
    [T_NOTE] = {"note", DUCKDB_TYPE_VARCHAR},
};

/* The fields of models that a summary needs. */
typedef struct models {
    model_column used;
    column n_rows, status, store;
    list_column std_err, features, names; /* features, names: of text; names: of the classes */
} models;

#define ONE_BLOCK ((idx_t) - 1) /* for models whose coefficients are not in blocks */
#define MOST_NAME 200           /* bytes of a class's name to show */
#define MOST_TERMS (1 << 22)    /* of all models of a vector: some 200 bytes each */

/* The terms being written, appended to those of earlier rows. */
typedef struct terms {
    duckdb_vector list;
    duckdb_vector fields[TERM_FIELDS];
    idx_t used;
    double *statistic, *freedom, *p; /* of all terms; NaN if undefined */
} terms;

static bool is(tusk_text t, const char *word) {
    return t.data && t.length == strlen(word) && memcmp(t.data, word, t.length) == 0;
}

static bool text_or_null(duckdb_vector v, idx_t n, scratch *s, column *c) {
    return v ? text_of_any(v, n, s, c) : all_null(n, s, c);
}

static bool models_of_any(duckdb_vector v, idx_t n, scratch *s, models *m) {
    if (!model_column_of_any(v, n, s, &m->used))
        return false;
    column none = m->used.self;
    *m = (models){.used = m->used, .n_rows = none, .status = none, .store = none};
    m->std_err.self = m->features.self = m->names.self = none;
    if (!none.vector)
        return true;
    duckdb_vector rows = field_of(v, "n_rows"), errors = field_of(v, "std_err");
    return rows && errors && numbers_of_any(rows, n, s, &m->n_rows, NULL) &&
           numbers_list_of_any(errors, n, s, &m->std_err, NULL) &&
           names_of_any(field_of(v, "features"), n, s, &m->features) &&
           names_of_any(field_of(v, "class_names"), n, s, &m->names) &&
           text_or_null(field_of(v, "status"), n, s, &m->status) &&
           text_or_null(field_of(v, "store"), n, s, &m->store);
}

/* The weights of trees, nets and machines are not terms: the intercept is their only one. */
static bool is_of_numbers(tusk_text task) {
    const tusk_model_kind *kind = tusk_kind_named(task);
    return kind && !kind->has_terms && !kind->has_centres;
}

static bool has_centres(const models *m, idx_t row) {
    const tusk_model_kind *kind = tusk_kind_named(text_in(&m->used.task, row));
    return kind && kind->has_centres;
}

static bool has_terms(const models *m, idx_t row) {
    return is_valid(&m->used.self, row) &&
           (is_valid(&m->used.coef.self, row) || is_of_numbers(text_in(&m->used.task, row)));
}

/* Coefficients in blocks, one for each of several classes or centres: the offset of the first
 * block, and the length of each, 0 for other models. cuts: thresholds between ordered levels,
 * which come first and take the intercept's place. */
typedef struct blocks {
    idx_t first, each, cuts;
} blocks;

static blocks blocks_of(const models *m, idx_t row) {
    duckdb_list_entry coef = list_entry(&m->used.coef, row);
    if (has_centres(m, row)) {
        const double *all = (const double *)m->used.coef.child.data + coef.offset;
        tusk_centres c;
        if (!tusk_centres_of((const tusk_weight *)all, coef.length, &c))
            return (blocks){0};
        return (blocks){.first = (idx_t)(c.first - (const tusk_weight *)all),
                        .each = (idx_t)c.d + 1};
    }
    if (!is_valid(&m->used.classes.self, row))
        return (blocks){0};
    idx_t classes = list_entry(&m->used.classes, row).length;
    if (is(text_in(&m->used.task, row), "ordinal"))
        return (blocks){.cuts = classes <= coef.length ? classes - 1 : 0};
    bool several = is(text_in(&m->used.task, row), "logistic") && classes > 2;
    return (blocks){.each = several ? coef.length / classes : 0};
}

/* The features that a summary leaves out; none if the model lacks some of them. */
static tusk_absorbed absorbed_of(const models *m, idx_t row) {
    tusk_absorbed found = tusk_absorbed_in(text_in(&m->used.options, row));
    int64_t length = (int64_t)list_entry(&m->used.coef, row).length;
    bool there =
        found.first > 0 && found.n > 0 && found.n <= length && found.first <= length - found.n + 1;
    return there ? found : (tusk_absorbed){0, 0};
}

static idx_t terms_of(const models *m, idx_t row) {
    if (is_of_numbers(text_in(&m->used.task, row)))
        return 1;
    blocks b = blocks_of(m, row);
    idx_t terms = list_entry(&m->used.coef, row).length - b.first + (b.each || b.cuts ? 0 : 1);
    return b.each ? terms : terms - (idx_t)absorbed_of(m, row).n;
}

/* The name of a class, or an empty text. */
static tusk_text name_of_class(const models *m, idx_t row, idx_t place) {
    const list_column *names = &m->names;
    if (!names->self.vector || !is_valid(&names->self, row))
        return (tusk_text){"", 0};
    duckdb_list_entry e = list_entry(names, row);
    tusk_text empty = {"", 0};
    tusk_text found = place < e.length ? text_in(&names->child, e.offset + place) : empty;
    return found.data ? found : empty;
}

static double item(const list_column *l, idx_t row, idx_t i) {
    if (!is_valid(&l->self, row))
        return NAN;
    duckdb_list_entry e = list_entry(l, row);
    if (i >= e.length || !is_valid(&l->child, e.offset + i))
        return NAN;
    return ((const double *)l->child.data)[e.offset + i];
}

static void put_number(duckdb_vector v, idx_t at, double x, bool known) {
    ((double *)duckdb_vector_get_data(v))[at] = x;
    if (!known)
        set_null(v, at);
}

static void put_text(duckdb_vector v, idx_t at, const char *text) {
    if (text)
        duckdb_vector_assign_string_element(v, at, text);
    else
        set_null(v, at);
}

static idx_t count_known(const list_column *l, idx_t row) {
    idx_t known = 0;
    if (is_valid(&l->self, row)) {
        duckdb_list_entry e = list_entry(l, row);
        for (idx_t i = 0; i < e.length; i++)
            known += is_valid(&l->child, e.offset + i);
    }
    return known;
}

/* Properties shared by all terms of a model. */
typedef struct facts {
    tusk_text task;
    const char *test;
    double freedom, interval; /* standard errors to the end of a confidence interval */
    bool intercept, linked;   /* linked: by another link than the task's usual one */
    char none[TUSK_NOTE];     /* reason for missing standard errors; '': there are some */
    tusk_absorbed absorbed;
    char of_levels[TUSK_NOTE]; /* note of the intercept of absorbed levels; '': there are none */
} facts;

/* Degrees of freedom: given by the options if rows were held out, otherwise the usual number. */
static double freedom_of(tusk_text options, double usual) {
    tusk_text given = tusk_json_member(options, "freedom");
    char text[32] = "";
    if (!given.data || given.length >= sizeof text)
        return usual;
    memcpy(text, given.data, given.length);
    return strtod(text, NULL);
}

static facts facts_of(const models *m, idx_t row) {
    tusk_text task = text_in(&m->used.task, row), options = text_in(&m->used.options, row);
    const tusk_task_row *known_task = tusk_task_named(task);
    bool student = known_task && known_task->test == TUSK_STUDENT,
         errors = is_valid(&m->std_err.self, row);
    idx_t known = count_known(&m->std_err, row);
    facts f = {.task = task,
               .test = student                          ? "t"
                       : is(task, "logistic") || errors ? "z"
                                                        : NULL,
               .freedom = INFINITY,
               .intercept = tusk_has_intercept(options),
               .linked = tusk_json_member(options, "link").data != NULL};
    if (student) {
        double rows = is_valid(&m->n_rows, row) ? ((const double *)m->n_rows.data)[row] : NAN;
        f.freedom = freedom_of(options, rows - (double)known);
    }
    f.interval = tusk_t_of_interval(f.freedom);
    tusk_noted noted = {task, options, text_in(&m->status, row), text_in(&m->store, row)};
    if (!known)
        tusk_note_none(&noted, f.none);
    if (!is_of_numbers(task) && !blocks_of(m, row).each)
        f.absorbed = absorbed_of(m, row);
    if (f.absorbed.n)
        tusk_note_absorbed(options, f.of_levels);
    return f;
}

static const char *note_of(const facts *f, idx_t feature, bool known) {
    if (!feature && f->absorbed.n)
        return f->of_levels;
    if (f->none[0])
        return f->none;
    if (known)
        return NULL;
    return !feature && !f->intercept ? TUSK_NOTE_INTERCEPT : TUSK_NOTE_UNDETERMINED;
}

/* The name of a feature: its own, or its number. */
static tusk_text name_of_feature(const models *m, idx_t row, idx_t feature, blocks b, char *room,
                                 size_t size) {
    duckdb_list_entry e = {0, 0};
    if (is_valid(&m->features.self, row))
        e = list_entry(&m->features, row);
    idx_t n = list_entry(&m->used.coef, row).length - b.cuts;
    tusk_text own = {NULL, 0};
    /* A factorization has more coefficients than names. */
    if (feature && e.length >= (b.each ? b.each - 1 : n))
        own = text_in(&m->features.child, e.offset + feature - 1);
    if (own.data)
        return own;
    int length = feature ? snprintf(room, size, "x%llu", (unsigned long long)feature)
                         : snprintf(room, size, has_centres(m, row) ? "rows" : "intercept");
    return (tusk_text){room, (size_t)length};
}

/* The name of a threshold: those of the levels on both sides. */
static void put_threshold(terms *t, idx_t at, const models *m, idx_t row, idx_t place) {
    char whole[2 * MOST_NAME + 8];
    tusk_text low = name_of_class(m, row, place), high = name_of_class(m, row, place + 1);
    snprintf(whole, sizeof whole, "%.*s | %.*s", tusk_quoted(low.data, low.length, MOST_NAME),
             low.data, tusk_quoted(high.data, high.length, MOST_NAME), high.data);
    put_text(t->fields[T_TERM], at, whole);
}

/* The name of a term; in a block it begins with that of the class, or the number of the centre. */
static void put_name(terms *t, idx_t at, const models *m, idx_t row, idx_t feature, blocks b,
                     idx_t block) {
    char room[32], number[32], whole[2 * MOST_NAME + 8];
    tusk_text name = name_of_feature(m, row, feature, b, room, sizeof room);
    if (block == ONE_BLOCK) {
        duckdb_vector_assign_string_element_len(t->fields[T_TERM], at, name.data, name.length);
        return;
    }
    tusk_text class = name_of_class(m, row, block);
    if (has_centres(m, row)) {
        int length = snprintf(number, sizeof number, "%llu", (unsigned long long)block + 1);
        class = (tusk_text){number, (size_t)length};
    }
    snprintf(whole, sizeof whole, "%.*s: %.*s", tusk_quoted(class.data, class.length, MOST_NAME),
             class.data, tusk_quoted(name.data, name.length, MOST_NAME), name.data);
    put_text(t->fields[T_TERM], at, whole);
}

/* The ends of the confidence interval, and exp(logarithm) if that is a ratio. */
static void put_interval(terms *t, idx_t at, const facts *f, double estimate, double logarithm,
                         double error) {
    double reach = f->interval * error, lower = estimate - reach, upper = estimate + reach;
    double ratio = error == error && !f->linked ? tusk_ratio(f->task, logarithm) : NAN;
    put_number(t->fields[T_LOWER], at, lower, lower == lower);
    put_number(t->fields[T_UPPER], at, upper, upper == upper);
    put_number(t->fields[T_RATIO], at, ratio, ratio == ratio);
}

/* Writes the term of a feature to the next entry of `t`. block: index of the term's block, from 0
 * on, or of the threshold. */
static void put_term(terms *t, const models *m, idx_t row, idx_t feature, const facts *f, blocks b,
                     idx_t block) {
    idx_t at = t->used++, place = feature;
    bool several = b.each, threshold = b.cuts && !feature;
    if (several)
        place += b.first + block * b.each;
    else if (b.cuts)
        place = threshold ? block : b.cuts + feature - 1;
    bool valid = feature || is_valid(&m->used.intercept, row);
    double estimate = several || b.cuts ? item(&m->used.coef, row, place)
                      : feature         ? item(&m->used.coef, row, feature - 1)
                      : valid           ? ((const double *)m->used.intercept.data)[row]
                                        : NAN,
           error = item(&m->std_err, row, place);
    bool known = error == error;
    t->statistic[at] = estimate / error;
    t->freedom[at] = f->freedom;
    ((int32_t *)duckdb_vector_get_data(t->fields[T_FEATURE]))[at] = (int32_t)feature;
    if (threshold)
        put_threshold(t, at, m, row, block);
    else
        put_name(t, at, m, row, feature, b, block);
    put_number(t->fields[T_ESTIMATE], at, estimate, estimate == estimate);
    put_number(t->fields[T_STD_ERR], at, error, known);
    put_text(t->fields[T_TEST], at, f->test);
    put_number(t->fields[T_STATISTIC], at, t->statistic[at], known && estimate == estimate);
    put_interval(t, at, f, estimate, threshold ? NAN : estimate, error);
    bool reference = several && !block && !known && !f->none[0];
    put_text(t->fields[T_NOTE], at, reference ? TUSK_NOTE_REFERENCE : note_of(f, feature, known));
}

static void put_model(terms *t, const models *m, idx_t row) {
    idx_t first = t->used, n = terms_of(m, row);
    facts f = facts_of(m, row);
    blocks b = blocks_of(m, row);
    for (idx_t i = 0; i < b.cuts; i++)
        put_term(t, m, row, 0, &f, b, i);
    for (idx_t i = b.cuts; i < n + (idx_t)f.absorbed.n; i++) {
        idx_t feature = b.each ? i % b.each : b.cuts ? i - b.cuts + 1 : i;
        if (!tusk_is_absorbed(f.absorbed, (int64_t)i))
            put_term(t, m, row, feature, &f, b, b.each ? i / b.each : ONE_BLOCK);
    }
    ((duckdb_list_entry *)duckdb_vector_get_data(t->list))[row] = (duckdb_list_entry){first, n};
}

static idx_t count_terms(const models *m, idx_t n) {
    idx_t total = 0;
    for (idx_t row = 0; row < n; row++)
        total += has_terms(m, row) ? terms_of(m, row) : 0;
    return total;
}

static bool terms_new(terms *t, idx_t total, duckdb_vector result, scratch *s) {
    *t = (terms){.list = result};
    duckdb_list_vector_reserve(result, total);
    duckdb_list_vector_set_size(result, total);
    duckdb_vector child = duckdb_list_vector_get_child(result);
    for (idx_t f = 0; f < TERM_FIELDS; f++)
        t->fields[f] = duckdb_struct_vector_get_child(child, f);
    t->statistic = piece(s, total * sizeof(double));
    t->freedom = piece(s, total * sizeof(double));
    t->p = piece(s, total * sizeof(double));
    return !s->out_of_memory;
}

/* Returns false if a model does not contain its coefficients. */
static bool put_models(duckdb_function_info info, terms *t, const models *m, idx_t n) {
    for (idx_t row = 0; row < n; row++) {
        if (has_terms(m, row)) {
            put_model(t, m, row);
            continue;
        }
        tusk_text store = {NULL, 0};
        if (is_valid(&m->used.self, row))
            store = text_in(&m->store, row);
        if (store.data) {
            char text[REFUSAL_ROOM];
            snprintf(text, sizeof text,
                     "model_summary: the coefficients lie in the store, tuskml store export %.*s "
                     "FILE writes them to a file",
                     (int)store.length, store.data);
            duckdb_scalar_function_set_error(info, text);
            return false;
        }
        set_null(t->list, row);
    }
    return true;
}

static void summarise(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    idx_t n = duckdb_data_chunk_get_size(chunk);
    scratch kept = {0};
    models m;
    terms t;
    char text[REFUSAL_ROOM] = "model_summary: out of memory";
    bool good = models_of_any(duckdb_data_chunk_get_vector(chunk, 0), n, &kept, &m);
    if (!good && !kept.out_of_memory)
        write_refusal("model_summary", chunk, text);
    idx_t total = good ? count_terms(&m, n) : 0;
    if (total > MOST_TERMS) {
        good = false;
        snprintf(text, sizeof text,
                 "model_summary: %llu terms are too many for a list, expected at most %d: FROM "
                 "model_summary(model) has a row for each",
                 (unsigned long long)total, MOST_TERMS);
    }
    if (!good || !terms_new(&t, total, result, &kept)) {
        duckdb_scalar_function_set_error(info, text);
    } else if (put_models(info, &t, &m, n)) {
        if (!two_sided_p((int64_t)t.used, t.statistic, t.freedom, t.p))
            duckdb_scalar_function_set_error(info, NO_P_VALUES);
        for (idx_t i = 0; i < t.used; i++)
            put_number(t.fields[T_P_VALUE], i, t.p[i], t.p[i] == t.p[i]);
    }
    scratch_free(&kept);
}

/* --- registration --- */

static duckdb_logical_type make_summary_type(void) {
    duckdb_logical_type types[TERM_FIELDS];
    const char *names[TERM_FIELDS];
    for (int i = 0; i < TERM_FIELDS; i++) {
        names[i] = TERM[i].name;
        types[i] = duckdb_create_logical_type(TERM[i].type);
    }
    duckdb_logical_type term = duckdb_create_struct_type(types, names, TERM_FIELDS);
    for (int i = 0; i < TERM_FIELDS; i++)
        duckdb_destroy_logical_type(&types[i]);
    duckdb_logical_type list = duckdb_create_list_type(term);
    duckdb_destroy_logical_type(&term);
    return list;
}

static bool register_one(duckdb_connection connection, bool own) {
    char name[SPELLED];
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type any = duckdb_create_logical_type(DUCKDB_TYPE_ANY);
    duckdb_logical_type summary = make_summary_type();
    duckdb_scalar_function_set_name(f, spelled("model_summary", own, name));
    duckdb_scalar_function_add_parameter(f, any);
    duckdb_scalar_function_set_return_type(f, summary);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_function(f, summarise);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&any);
    duckdb_destroy_logical_type(&summary);
    duckdb_destroy_scalar_function(&f);
    return done;
}

bool register_summary(duckdb_connection connection) {
    return register_one(connection, false) && register_one(connection, true);
}
