/* predict, predict_proba and decision: a model value and the features of a row into a number.
 *
 * DuckDB flattens the arguments of a C function: a struct joined to many rows is copied field by
 * field for each of them. So the functions here take only the fields that they use, as the type of
 * their first argument; SQL macros give them their public names and cast the whole model to that
 * type, which drops the others for free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "door.h"

#define MODEL_FORMAT 1
#define MODEL_PREFIX "{\"tuskml\":"

enum answer { PREDICT, PREDICT_PROBA, DECISION, ANSWERS };

static const char *const NAMES[ANSWERS] = {"predict", "predict_proba", "decision"};

typedef struct overload {
    enum answer answer;
    feature_type features;
} overload;

/* The fields of a model that a prediction uses: `store`, usually NULL, alone would cost 13 % of
 * the time. */
enum used_field { U_TASK, U_COEF, U_INTERCEPT, U_CLASSES, U_OPTIONS, USED_FIELDS };

typedef struct model_column {
    column self, task, intercept, options;
    list_column coef, classes;
} model_column;

enum task { LINEAR, LOGISTIC, SVM, TASKS };

static const char *const TASK_NAMES[TASKS] = {"linear", "logistic", "svm"};

/* The model of some rows, checked. */
typedef struct scorer {
    bool null; /* its predictions are NULL */
    enum task task;
    const double *coef;
    idx_t n_coef;
    double intercept;
    idx_t n_classes;
    double negative, positive;
} scorer;

/* One chunk of rows. */
typedef struct call {
    duckdb_function_info info;
    const overload *o;
    idx_t n;
    model_column models;
    feature_column features;
    bool features_complete; /* no NULL among the features of the chunk */
    duckdb_vector result;
    double *out;
    uint64_t *validity; /* of the result; NULL until the first NULL */
} call;

/* --- arithmetic --- */

/* One body, compiled for each level of x86 vectors; the loader picks. Sanitizers do not survive
 * its resolvers. */
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

#define LANES 4
typedef float lanes_f32 __attribute__((vector_size(LANES * sizeof(float))));
typedef double lanes_f64 __attribute__((vector_size(LANES * sizeof(double))));

/* sum += x[0 .. LANES - 1] * w[0 .. LANES - 1]. gcc 12 makes one instruction of this conversion,
 * and four of
 * __builtin_convertvector. */
#define ADD_LANES(lanes_T, sum, x, w)           \
    do {                                        \
        lanes_T u;                              \
        lanes_f64 v;                            \
        memcpy(&u, x, sizeof u);                \
        memcpy(&v, w, sizeof v);                \
        lanes_f64 t = {u[0], u[1], u[2], u[3]}; \
        sum += t * v;                           \
    } while (0)

/* out = x w + b for x of shape (n, d). Every row adds up in the same order, so its margin does not
 * depend on the rows around it. */
#define DEFINE_MARGINS(name, T, lanes_T)                                             \
    CLONES static void name(const T *x, idx_t d, idx_t n, const double *w, double b, \
                            double *out) {                                           \
        for (idx_t i = 0; i < n; i++, x += d) {                                      \
            lanes_f64 even = {0}, odd = {0};                                         \
            idx_t j = 0;                                                             \
            for (; j + 2 * LANES <= d; j += 2 * LANES) {                             \
                ADD_LANES(lanes_T, even, x + j, w + j);                              \
                ADD_LANES(lanes_T, odd, x + j + LANES, w + j + LANES);               \
            }                                                                        \
            if (j + LANES <= d) {                                                    \
                ADD_LANES(lanes_T, even, x + j, w + j);                              \
                j += LANES;                                                          \
            }                                                                        \
            even += odd;                                                             \
            double sum = b;                                                          \
            for (; j < d; j++)                                                       \
                sum += x[j] * w[j];                                                  \
            out[i] = sum + ((even[0] + even[2]) + (even[1] + even[3]));              \
        }                                                                            \
    }

DEFINE_MARGINS(margins_f32, float, lanes_f32)
DEFINE_MARGINS(margins_f64, double, lanes_f64)

/* 2^k for an integral k in [-1022, 1023]: k + 1023 is the exponent field, and adding 2^52 + 1023
 * to k leaves that integer in the lowest bits of the sum. */
static inline double power_of_two(double k) {
    double shifted = k + (0x1p52 + 1023), power;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* exp(x) for x <= 0, to 2 units in the last place, without a branch so that loops over it become
 * vector code. x = k ln 2 + r with |r| <= ln 2 / 2: exp(x) = 2^k exp(r), and the Taylor terms left
 * out are below r^14 / 14! < 5e-18. ln 2 in two parts keeps r exact; 2^k in two factors reaches
 * the denormal numbers. */
static inline double exp_of_negative(double x) {
    x = x < -800 ? -800 : x;
    double k = x * 0x1.71547652b82fep+0 + 0x1.8p52 - 0x1.8p52; /* rounds to the nearest integer */
    double r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    double half = k * 0.5 + 0x1.8p52 - 0x1.8p52;
    return p * power_of_two(half) * power_of_two(k - half);
}

/* 1 / (1 + exp(-m)), by exp of a number <= 0 only: nothing overflows, and small probabilities keep
 * all digits. */
CLONES static void to_probabilities(double *m, idx_t n) {
    for (idx_t i = 0; i < n; i++) {
        double e = exp_of_negative(-__builtin_fabs(m[i]));
        m[i] = (m[i] < 0 ? e : 1) / (1 + e);
    }
}

/* The class on each side of the margin; a margin that is not a number has none. */
static void to_classes(double *m, idx_t n, double negative, double positive) {
    for (idx_t i = 0; i < n; i++)
        m[i] = m[i] >= 0 ? positive : m[i] < 0 ? negative : m[i];
}

/* Ids that the model has not seen weigh 0. False at a negative id, which *bad then is. */
#define DEFINE_MARGIN(name, I, T)                                                     \
    static bool name(const I *ids, const T *x, idx_t n, const scorer *s, double *out, \
                     int64_t *bad) {                                                  \
        double sum = s->intercept;                                                    \
        for (idx_t i = 0; i < n; i++) {                                               \
            if (ids[i] < 0) {                                                         \
                *bad = ids[i];                                                        \
                return false;                                                         \
            }                                                                         \
            if ((uint64_t)ids[i] < s->n_coef)                                         \
                sum += x[i] * s->coef[ids[i]];                                        \
        }                                                                             \
        *out = sum;                                                                   \
        return true;                                                                  \
    }

DEFINE_MARGIN(margin_i32_f32, int32_t, float)
DEFINE_MARGIN(margin_i32_f64, int32_t, double)

/* --- reading the model --- */

static bool refuse(const call *c, const char *sentence) {
    char text[512];
    snprintf(text, sizeof text, "%s: %s", NAMES[c->o->answer], sentence);
    duckdb_scalar_function_set_error(c->info, text);
    return false;
}

static model_column model_column_of(duckdb_vector v) {
    model_column m = {.self = column_of(v)};
    m.task = column_of(duckdb_struct_vector_get_child(v, U_TASK));
    m.coef = list_column_of(duckdb_struct_vector_get_child(v, U_COEF));
    m.intercept = column_of(duckdb_struct_vector_get_child(v, U_INTERCEPT));
    m.classes = list_column_of(duckdb_struct_vector_get_child(v, U_CLASSES));
    m.options = column_of(duckdb_struct_vector_get_child(v, U_OPTIONS));
    return m;
}

static idx_t same_validity(const column *c, idx_t row, idx_t n) {
    if (!c->validity)
        return n;
    bool valid = is_valid(c, row);
    for (idx_t i = 1; i < n; i++)
        if (is_valid(c, row + i) != valid)
            return i;
    return n;
}

/* How many of the n items from row on have the bytes of the first. An array of equal items equals
 * itself shifted by one, so that the usual case is one memcmp. */
static idx_t same_bytes(const column *c, size_t size, idx_t row, idx_t n) {
    if (n == 1)
        return 1;
    const char *first = (const char *)c->data + row * size;
    if (memcmp(first, first + size, (n - 1) * size) == 0)
        return n;
    idx_t i = 1;
    while (memcmp(first, first + i * size, size) == 0)
        i++;
    return i;
}

static idx_t same_field(const column *c, size_t size, idx_t row, idx_t n) {
    return same_validity(c, row, same_bytes(c, size, row, n));
}

/* How many rows from row on have one model: the same list in the same place, the same texts, the
 * same numbers. */
static idx_t model_run(const call *c, idx_t row) {
    const model_column *m = &c->models;
    idx_t n = c->n - row;
    n = same_field(&m->coef.self, sizeof(duckdb_list_entry), row, n);
    n = same_field(&m->intercept, sizeof(double), row, n);
    n = same_field(&m->task, sizeof(duckdb_string_t), row, n);
    n = same_field(&m->classes.self, sizeof(duckdb_list_entry), row, n);
    n = same_field(&m->options, sizeof(duckdb_string_t), row, n);
    return same_validity(&m->self, row, n);
}

static const char *string_at(const column *c, idx_t row, size_t *length) {
    duckdb_string_t *s = (duckdb_string_t *)c->data + row;
    *length = duckdb_string_t_length(*s);
    return duckdb_string_t_data(s);
}

/* The options of a model begin with the version of its format. */
static bool check_format(const call *c, idx_t row) {
    static const char prefix[] = MODEL_PREFIX;
    char sentence[160];
    if (!is_valid(&c->models.options, row))
        return refuse(c, "the model has no options, which carry its format version: it is not one "
                         "of train_model");
    size_t length, at = sizeof prefix - 1;
    const char *text = string_at(&c->models.options, row, &length);
    if (length <= at || memcmp(text, prefix, at) != 0) {
        snprintf(sentence, sizeof sentence,
                 "the options of the model begin with '%.*s', expected '%s%d'",
                 (int)(length < 20 ? length : 20), text, prefix, MODEL_FORMAT);
        return refuse(c, sentence);
    }
    size_t end = at;
    while (end < length && text[end] >= '0' && text[end] <= '9')
        end++;
    if (end == at + 1 && text[at] == '0' + MODEL_FORMAT)
        return true;
    if (end == at)
        end = length < at + 20 ? length : at + 20;
    snprintf(sentence, sizeof sentence,
             "the model has format version %.*s, this tuskml %s reads version %d",
             (int)(end - at < 20 ? end - at : 20), text + at, TUSKML_VERSION, MODEL_FORMAT);
    return refuse(c, sentence);
}

static bool read_task(const call *c, idx_t row, scorer *s) {
    size_t length = 0;
    const char *text =
        is_valid(&c->models.task, row) ? string_at(&c->models.task, row, &length) : "";
    for (int t = 0; t < TASKS; t++) {
        if (length != strlen(TASK_NAMES[t]) || memcmp(text, TASK_NAMES[t], length) != 0)
            continue;
        s->task = (enum task)t;
        if (c->o->answer != PREDICT_PROBA || s->task == LOGISTIC)
            return true;
    }
    char sentence[160];
    snprintf(sentence, sizeof sentence,
             c->o->answer == PREDICT_PROBA
                 ? "model is '%.*s', only 'logistic' models give probabilities; use decision()"
                 : "model is '%.*s', expected 'linear', 'logistic' or 'svm'",
             (int)(length < 40 ? length : 40), text);
    return refuse(c, sentence);
}

static const double *list_at(const list_column *l, idx_t row, idx_t *n) {
    *n = 0;
    if (!is_valid(&l->self, row))
        return NULL;
    duckdb_list_entry e = list_entry(l, row);
    *n = e.length;
    return (const double *)l->child.data + e.offset;
}

static bool list_complete(const list_column *l, idx_t row) {
    if (!l->child.validity || !is_valid(&l->self, row))
        return true;
    duckdb_list_entry e = list_entry(l, row);
    return all_valid(&l->child, e.offset, e.length);
}

static bool read_classes(const call *c, idx_t row, scorer *s) {
    if (s->task == LINEAR)
        return true;
    const double *classes = list_at(&c->models.classes, row, &s->n_classes);
    if (s->n_classes != 1 && s->n_classes != 2)
        return refuse(c, "the model has no classes, expected a list of one or two numbers");
    s->negative = classes[0];
    s->positive = classes[s->n_classes - 1];
    return true;
}

/* Without coefficients a model of one class says the same of every row, another one is in a store;
 * without an intercept too it says nothing. */
static bool read_coef(const call *c, idx_t row, scorer *s) {
    const model_column *m = &c->models;
    bool has_intercept = is_valid(&m->intercept, row);
    s->intercept = has_intercept ? ((const double *)m->intercept.data)[row] : 0;
    s->coef = list_at(&m->coef, row, &s->n_coef);
    s->null = (!s->n_coef && !has_intercept) || !list_complete(&m->coef, row) ||
              !list_complete(&m->classes, row);
    if (s->null || s->n_coef || s->n_classes == 1)
        return true;
    return refuse(
        c,
        "the model has no coefficients: it lies in a store, which this version of tuskml lacks");
}

static bool read_model(const call *c, idx_t row, scorer *s) {
    *s = (scorer){.null = !is_valid(&c->models.self, row)};
    if (s->null)
        return true;
    return check_format(c, row) && read_task(c, row, s) && read_classes(c, row, s) &&
           read_coef(c, row, s);
}

/* --- scoring --- */

static void put_null(call *c, idx_t row) {
    if (!c->validity) {
        duckdb_vector_ensure_validity_writable(c->result);
        c->validity = duckdb_vector_get_validity(c->result);
    }
    duckdb_validity_set_row_invalid(c->validity, row);
    c->out[row] = 0;
}

/* Whole words of the mask at a time: a mask without a zero costs next to nothing. */
static bool column_complete(const column *c, idx_t n) {
    if (!c->validity)
        return true;
    for (idx_t word = 0; word < n / 64; word++)
        if (~c->validity[word])
            return false;
    return all_valid(c, n / 64 * 64, n % 64);
}

static bool list_column_complete(const list_column *l, idx_t n) {
    return column_complete(&l->self, n) &&
           column_complete(&l->child, duckdb_list_vector_get_size(l->self.vector));
}

static bool features_complete(const feature_column *f, idx_t n) {
    return column_complete(&f->self, n) && list_column_complete(&f->values, n) &&
           (!f->type.sparse || list_column_complete(&f->indices, n));
}

static bool usable(const call *c, idx_t row) {
    return c->features_complete || features_valid(&c->features, row);
}

/* Are these n lists of one length, one behind the other? */
CLONES static bool is_matrix(const duckdb_list_entry *e, idx_t n) {
    uint64_t d = e->length, next = e->offset, wrong = 0;
    for (idx_t i = 0; i < n; i++, next += d)
        wrong |= (e[i].length ^ d) | (e[i].offset ^ next);
    return !wrong;
}

/* How many rows from row on are one matrix. */
static idx_t dense_run(const call *c, idx_t row, idx_t end) {
    const duckdb_list_entry *e = (const duckdb_list_entry *)c->features.values.self.data + row;
    idx_t n = 1, d = e->length;
    while (row + n < end && e[n].length == d && e[n].offset == e->offset + n * d &&
           usable(c, row + n))
        n++;
    return n;
}

static bool score_dense(call *c, const scorer *s, idx_t row, idx_t n) {
    duckdb_list_entry e = list_entry(&c->features.values, row);
    if (s->n_coef && e.length != s->n_coef) {
        char sentence[120];
        snprintf(sentence, sizeof sentence, "the model has %llu features, row has %llu",
                 (unsigned long long)s->n_coef, (unsigned long long)e.length);
        return refuse(c, sentence);
    }
    const void *x = c->features.values.child.data;
    if (!s->n_coef)
        for (idx_t i = 0; i < n; i++)
            c->out[row + i] = s->intercept;
    else if (c->features.type.f64)
        margins_f64((const double *)x + e.offset, e.length, n, s->coef, s->intercept,
                    c->out + row);
    else
        margins_f32((const float *)x + e.offset, e.length, n, s->coef, s->intercept, c->out + row);
    return true;
}

static bool score_sparse(call *c, const scorer *s, idx_t row) {
    duckdb_list_entry i = list_entry(&c->features.indices, row),
                      v = list_entry(&c->features.values, row);
    char sentence[120];
    if (i.length != v.length) {
        snprintf(sentence, sizeof sentence,
                 "row has %llu indices and %llu values, expected as many of both",
                 (unsigned long long)i.length, (unsigned long long)v.length);
        return refuse(c, sentence);
    }
    const void *ids = c->features.indices.child.data, *x = c->features.values.child.data;
    feature_type type = c->features.type;
    int64_t bad = 0;
    bool good;
    if (type.f64)
        good = margin_i32_f64((const int32_t *)ids + i.offset, (const double *)x + v.offset,
                              i.length, s, c->out + row, &bad);
    else
        good = margin_i32_f32((const int32_t *)ids + i.offset, (const float *)x + v.offset,
                              i.length, s, c->out + row, &bad);
    if (good)
        return true;
    snprintf(sentence, sizeof sentence, "feature id %lld is negative, ids start at 0",
             (long long)bad);
    return refuse(c, sentence);
}

/* The margins of rows with one model. */
static bool score_run(call *c, const scorer *s, idx_t row, idx_t end) {
    const duckdb_list_entry *e = (const duckdb_list_entry *)c->features.values.self.data + row;
    if (!s->null && c->features_complete && !c->features.type.sparse && is_matrix(e, end - row))
        return score_dense(c, s, row, end - row);
    idx_t n;
    for (; row < end; row += n) {
        n = 1;
        if (s->null || !usable(c, row)) {
            put_null(c, row);
        } else if (c->features.type.sparse) {
            if (!score_sparse(c, s, row))
                return false;
        } else {
            n = dense_run(c, row, end);
            if (!score_dense(c, s, row, n))
                return false;
        }
    }
    return true;
}

static void score_chunk(duckdb_function_info info, duckdb_data_chunk chunk, duckdb_vector result) {
    const overload *o = duckdb_scalar_function_get_extra_info(info);
    call c = {.info = info, .o = o, .n = duckdb_data_chunk_get_size(chunk), .result = result};
    c.models = model_column_of(duckdb_data_chunk_get_vector(chunk, 0));
    c.features = feature_column_of(duckdb_data_chunk_get_vector(chunk, 1), o->features);
    c.features_complete = features_complete(&c.features, c.n);
    c.out = duckdb_vector_get_data(result);
    scorer s;
    for (idx_t row = 0, n; row < c.n; row += n) {
        n = model_run(&c, row);
        if (!read_model(&c, row, &s) || !score_run(&c, &s, row, row + n))
            return;
        if (o->answer == PREDICT && s.task != LINEAR)
            to_classes(c.out + row, n, s.negative, s.positive);
    }
    if (o->answer == PREDICT_PROBA)
        to_probabilities(c.out, c.n);
}

/* --- registration --- */

static duckdb_logical_type make_used_type(void) {
    duckdb_logical_type types[USED_FIELDS] = {
        [U_TASK] = duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR),
        [U_COEF] = make_list_type(DUCKDB_TYPE_DOUBLE),
        [U_INTERCEPT] = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE),
        [U_CLASSES] = make_list_type(DUCKDB_TYPE_DOUBLE),
        [U_OPTIONS] = duckdb_create_logical_type(DUCKDB_TYPE_VARCHAR),
    };
    const char *names[USED_FIELDS] = {"task", "coef", "intercept", "classes", "options"};
    duckdb_logical_type used = duckdb_create_struct_type(types, names, USED_FIELDS);
    for (int i = 0; i < USED_FIELDS; i++)
        duckdb_destroy_logical_type(&types[i]);
    return used;
}

static void add_parameter(duckdb_scalar_function f, duckdb_logical_type type) {
    duckdb_scalar_function_add_parameter(f, type);
    duckdb_destroy_logical_type(&type);
}

static bool add_overload(duckdb_scalar_function_set set, const char *name, overload like) {
    overload *o = malloc(sizeof *o);
    if (!o)
        return false;
    *o = like;
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_scalar_function_set_name(f, name);
    add_parameter(f, make_used_type());
    add_parameter(f, make_feature_type(o->features));
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_scalar_function_set_return_type(f, number);
    duckdb_destroy_logical_type(&number);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_extra_info(f, o, free);
    duckdb_scalar_function_set_function(f, score_chunk);
    bool added = duckdb_add_scalar_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_scalar_function(&f);
    return added;
}

static bool register_one(duckdb_connection connection, enum answer answer) {
    char name[32];
    snprintf(name, sizeof name, "_tusk_%s", NAMES[answer]);
    duckdb_scalar_function_set set = duckdb_create_scalar_function_set(name);
    bool done = true;
    for (int f = 0; f < N_FEATURE_TYPES; f++)
        done = done && add_overload(set, name, (overload){answer, FEATURE_TYPES[f]});
    done = done && duckdb_register_scalar_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_scalar_function_set(&set);
    return done;
}

bool register_predict(duckdb_connection connection) {
    bool done = true;
    for (int a = 0; a < ANSWERS; a++)
        done = done && register_one(connection, (enum answer)a);
    return done;
}
