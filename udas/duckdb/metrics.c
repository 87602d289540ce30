/* log_loss, auc, accuracy, rmse, mae and r2: aggregates over a label and what a model said of it.
 *
 * A row with a NULL counts nowhere; without rows the answer is NULL. Combine reads its source and
 * leaves it as it was, because a window uses one state as the source of many.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "door.h"

/* --- sums --- */

/* Neumaier's sum: carry holds what rounding took from sum, so that the result hardly depends on
 * the order. */
typedef struct exact_sum {
    double sum, carry;
} exact_sum;

static void add(exact_sum *s, double x) {
    double t = s->sum + x;
    s->carry += fabs(s->sum) >= fabs(x) ? (s->sum - t) + x : (x - t) + s->sum;
    s->sum = t;
}

static void add_sum(exact_sum *s, const exact_sum *other) {
    add(s, other->sum);
    s->carry += other->carry;
}

/* An infinite sum leaves a carry that is not a number. */
static double total(const exact_sum *s) {
    return isfinite(s->sum) ? s->sum + s->carry : s->sum;
}

/* The state of every metric but auc. */
typedef struct score_state {
    int64_t n;
    exact_sum error;     /* of the rows' losses, or how many were right */
    double origin, mean; /* r2: the first label, and the mean of the labels counted from there */
    double spread;       /* r2: sum of the squared distances of the labels from their mean */
    bool zero, minus;    /* log_loss: a label was 0, a label was -1 */
} score_state;

/* B. P. Welford, Note on a method for calculating corrected sums of squares and products, 1962: no
 * difference of large sums, and a constant label leaves spread at exactly 0. Counting from the
 * first label keeps the digits of a mean that is large against the spread. */
static void spread_add(score_state *s, double y) {
    if (s->n == 1)
        s->origin = y;
    double distance = (y - s->origin) - s->mean;
    s->mean += distance / (double)s->n;
    s->spread += distance * ((y - s->origin) - s->mean);
}

/* T. F. Chan, G. H. Golub, R. J. LeVeque, Updating formulae and a pairwise algorithm, 1979. n
 * already holds the rows of both. */
static void spread_merge(score_state *s, const score_state *other) {
    if (s->n == other->n)
        s->origin = other->origin;
    double weight = (double)other->n / (double)s->n;
    double distance = (other->origin - s->origin) + (other->mean - s->mean);
    s->mean += distance * weight;
    s->spread += other->spread + distance * distance * weight * (double)(s->n - other->n);
}

static void score_merge(score_state *target, const score_state *source) {
    if (!source->n)
        return;
    target->n += source->n;
    add_sum(&target->error, &source->error);
    spread_merge(target, source);
    target->zero |= source->zero;
    target->minus |= source->minus;
}

/* --- the metrics of single rows --- */

#define SENTENCE 160

/* Takes the row (y, p) into the state, whose n counts it already; false with a sentence when it is
 * no good. */
typedef bool (*take_row)(score_state *s, double y, double p, char *sentence);
/* The metric; NULL when *null is set. */
typedef double (*give_score)(const score_state *s, bool *null);

/* One limit for both ends, as scikit-learn has it: the loss of a row is at most 36.04. */
static bool take_log_loss(score_state *s, double y, double p, char *sentence) {
    if (y != 1 && y != 0 && y != -1) {
        snprintf(sentence, SENTENCE, "label is %g, expected a boolean, 0 or 1, or -1 or +1", y);
        return false;
    }
    if (!(p >= 0 && p <= 1)) {
        snprintf(sentence, SENTENCE, "p is %g, expected a probability between 0 and 1", p);
        return false;
    }
    s->zero |= y == 0;
    s->minus |= y == -1;
    if (s->zero && s->minus) {
        snprintf(sentence, SENTENCE,
                 "label holds both 0 and -1, expected a boolean, 0 or 1, or -1 or +1");
        return false;
    }
    double q = y > 0 ? p : 1 - p;
    add(&s->error, -log(fmin(fmax(q, DBL_EPSILON), 1 - DBL_EPSILON)));
    return true;
}

static bool take_accuracy(score_state *s, double y, double p, char *sentence) {
    (void)sentence;
    add(&s->error, y == p);
    return true;
}

static bool take_rmse(score_state *s, double y, double p, char *sentence) {
    (void)sentence;
    add(&s->error, (y - p) * (y - p));
    return true;
}

static bool take_mae(score_state *s, double y, double p, char *sentence) {
    (void)sentence;
    add(&s->error, fabs(y - p));
    return true;
}

static bool take_r2(score_state *s, double y, double p, char *sentence) {
    spread_add(s, y);
    return take_rmse(s, y, p, sentence);
}

static double give_mean(const score_state *s, bool *null) {
    (void)null;
    return total(&s->error) / (double)s->n;
}

static double give_rmse(const score_state *s, bool *null) {
    return sqrt(give_mean(s, null));
}

/* Nothing varies, nothing to explain: a constant label has no r2. */
static double give_r2(const score_state *s, bool *null) {
    *null = s->spread == 0;
    return 1 - total(&s->error) / s->spread;
}

typedef struct metric {
    const char *name;
    take_row take;
    give_score give;
    bool boolean_second; /* the second argument may be boolean */
} metric;

static const metric LOG_LOSS = {"log_loss", take_log_loss, give_mean, false};
static const metric AUC = {"auc", NULL, NULL, false};
static const metric ACCURACY = {"accuracy", take_accuracy, give_mean, true};
static const metric RMSE = {"rmse", take_rmse, give_rmse, false};
static const metric MAE = {"mae", take_mae, give_mean, false};
static const metric R2 = {"r2", take_r2, give_r2, false};

/* --- one chunk --- */

/* What the callbacks of one overload need to know. */
typedef struct overload {
    const metric *metric;
    bool boolean_label, boolean_second;
} overload;

static const overload *overload_of(duckdb_function_info info) {
    return duckdb_aggregate_function_get_extra_info(info);
}

static void refuse(duckdb_function_info info, const char *sentence) {
    char text[SENTENCE + 32];
    snprintf(text, sizeof text, "%s: %s", overload_of(info)->metric->name, sentence);
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
        for (idx_t row = 0; row < n; row++)                                        \
            if (is_valid(&first, row) && is_valid(&second, row) &&                 \
                !body(info, states[row], number_at(&first, o->boolean_label, row), \
                      number_at(&second, o->boolean_second, row)))                 \
                return;                                                            \
    } while (0)

static bool score_take(duckdb_function_info info, duckdb_aggregate_state state, double y,
                       double p) {
    score_state *s = (score_state *)state;
    char sentence[SENTENCE];
    s->n++;
    if (overload_of(info)->metric->take(s, y, p, sentence))
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
    memset(state, 0, sizeof(score_state));
}

static void score_update(duckdb_function_info info, duckdb_data_chunk chunk,
                         duckdb_aggregate_state *states) {
    EACH_ROW(info, chunk, score_take);
}

static void score_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                          duckdb_aggregate_state *targets, idx_t n) {
    for (idx_t i = 0; i < n; i++) {
        score_state *target = (score_state *)targets[i];
        score_merge(target, (const score_state *)sources[i]);
        if (target->zero && target->minus) {
            refuse(info, "label holds both 0 and -1, expected a boolean, 0 or 1, or -1 or +1");
            return;
        }
    }
}

static void score_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                           duckdb_vector result, idx_t n, idx_t offset) {
    give_score give = overload_of(info)->metric->give;
    double *out = duckdb_vector_get_data(result);
    for (idx_t i = 0; i < n; i++) {
        const score_state *s = (const score_state *)states[i];
        bool null = !s->n;
        double score = null ? 0 : give(s, &null);
        if (null)
            set_null(result, offset + i);
        else
            out[offset + i] = score;
    }
}

/* --- auc --- */

/* The scores of the rows with one label. They are kept as integers that sort like the scores do.
 */
typedef struct score_list {
    double label;
    uint64_t *keys;
    int64_t n, capacity;
} score_list;

/* A list is in use when it has keys, and the first is in use before the second. */
typedef struct auc_state {
    score_list lists[2];
} auc_state;

/* Negative numbers have all their bits flipped, others the sign only; -0 becomes 0. */
static uint64_t key_of(double x) {
    uint64_t bits;
    x += 0.0;
    memcpy(&bits, &x, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static bool reserve_keys(score_list *l, int64_t more) {
    if (l->n + more <= l->capacity)
        return true;
    int64_t capacity = l->capacity ? 2 * l->capacity : 8;
    if (capacity < l->n + more)
        capacity = l->n + more;
    uint64_t *keys = realloc(l->keys, (size_t)capacity * sizeof *keys);
    if (!keys)
        return false;
    l->keys = keys;
    l->capacity = capacity;
    return true;
}

/* Appends keys of rows with this label; false with the error set. */
static bool auc_append(duckdb_function_info info, auc_state *s, double label, const uint64_t *keys,
                       int64_t n) {
    score_list *l = s->lists;
    while (l < s->lists + 2 && l->n && l->label != label)
        l++;
    if (l == s->lists + 2) {
        char sentence[SENTENCE];
        snprintf(sentence, sizeof sentence,
                 "label takes a third value %g after %g and %g, expected two", label,
                 s->lists[0].label, s->lists[1].label);
        refuse(info, sentence);
        return false;
    }
    if (!reserve_keys(l, n)) {
        refuse(info, "out of memory");
        return false;
    }
    l->label = label;
    memcpy(l->keys + l->n, keys, (size_t)n * sizeof *keys);
    l->n += n;
    return true;
}

static bool auc_take(duckdb_function_info info, duckdb_aggregate_state state, double y,
                     double score) {
    if (isnan(y) || isnan(score)) {
        refuse(info,
               isnan(y) ? "label is NaN, expected a number" : "score is NaN, expected a number");
        return false;
    }
    uint64_t key = key_of(score);
    return auc_append(info, (auc_state *)state, y, &key, 1);
}

static idx_t auc_size(duckdb_function_info info) {
    (void)info;
    return sizeof(auc_state);
}

static void auc_init(duckdb_function_info info, duckdb_aggregate_state state) {
    (void)info;
    memset(state, 0, sizeof(auc_state));
}

static void auc_destroy(duckdb_aggregate_state *states, idx_t n) {
    for (idx_t i = 0; i < n; i++) {
        auc_state *s = (auc_state *)states[i];
        for (int l = 0; l < 2; l++)
            free(s->lists[l].keys);
        memset(s, 0, sizeof *s);
    }
}

static void auc_update(duckdb_function_info info, duckdb_data_chunk chunk,
                       duckdb_aggregate_state *states) {
    EACH_ROW(info, chunk, auc_take);
}

static void auc_combine(duckdb_function_info info, duckdb_aggregate_state *sources,
                        duckdb_aggregate_state *targets, idx_t n) {
    for (idx_t i = 0; i < n; i++) {
        const auc_state *source = (const auc_state *)sources[i];
        for (const score_list *l = source->lists; l < source->lists + 2; l++)
            if (l->n && !auc_append(info, (auc_state *)targets[i], l->label, l->keys, l->n))
                return;
    }
}

#define RADIX_BITS 11
#define RADIX (1 << RADIX_BITS)
#define PASSES 6      /* of 11 bits: 64 bits */
#define FEW_KEYS 1024 /* below, counting costs more than comparing */

static int compare_keys(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static unsigned digit(uint64_t key, int pass) {
    return key >> (pass * RADIX_BITS) & (RADIX - 1);
}

/* Counts into the place where the keys of each digit begin; false when all keys have one digit. */
static bool place_digits(int64_t *count, int64_t n) {
    int64_t at = 0;
    for (int d = 0; d < RADIX; d++) {
        int64_t c = count[d];
        if (c == n)
            return false;
        count[d] = at;
        at += c;
    }
    return true;
}

/* Radix sort from the lowest digit up. Returns where the sorted keys are: keys or other. */
static uint64_t *sort_keys(uint64_t *keys, uint64_t *other, int64_t n) {
    if (n < FEW_KEYS) {
        qsort(keys, (size_t)n, sizeof *keys, compare_keys);
        return keys;
    }
    int64_t count[PASSES][RADIX] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int p = 0; p < PASSES; p++)
            count[p][digit(keys[i], p)]++;
    for (int p = 0; p < PASSES; p++) {
        if (!place_digits(count[p], n))
            continue;
        for (int64_t i = 0; i < n; i++)
            other[count[p][digit(keys[i], p)]++] = keys[i];
        uint64_t *sorted = other;
        other = keys;
        keys = sorted;
    }
    return keys;
}

/* Twice the Mann-Whitney statistic: for every pair of a positive and a negative row 2 when the
 * positive has the higher score, 1 when they tie. An integer, so exact. */
static uint64_t count_pairs(const uint64_t *positive, int64_t n_positive, const uint64_t *negative,
                            int64_t n_negative) {
    uint64_t twice = 0;
    int64_t below = 0, up_to = 0; /* negatives with a lower score, with a lower or the same one */
    for (int64_t i = 0; i < n_positive; i++) {
        while (below < n_negative && negative[below] < positive[i])
            below++;
        if (up_to < below)
            up_to = below;
        while (up_to < n_negative && negative[up_to] == positive[i])
            up_to++;
        twice += (uint64_t)(below + up_to);
    }
    return twice;
}

/* Sorts copies: a window may finalize a state that other threads combine from. False when memory
 * is out. */
static bool auc_of(const auc_state *s, double *auc) {
    bool second = s->lists[1].label > s->lists[0].label;
    const score_list *positive = &s->lists[second], *negative = &s->lists[!second];
    int64_t p = positive->n, q = negative->n, longest = p > q ? p : q;
    uint64_t *work = malloc((size_t)(p + q + longest) * sizeof *work);
    if (!work)
        return false;
    uint64_t *spare = work + p + q;
    memcpy(work, positive->keys, (size_t)p * sizeof *work);
    memcpy(work + p, negative->keys, (size_t)q * sizeof *work);
    const uint64_t *sorted = sort_keys(work, spare, p);
    if (sorted == spare)
        sorted = memcpy(work, spare, (size_t)p * sizeof *work);
    const uint64_t *others = sort_keys(work + p, spare, q);
    *auc = (double)count_pairs(sorted, p, others, q) / (2.0 * (double)p * (double)q);
    free(work);
    return true;
}

static void auc_finalize(duckdb_function_info info, duckdb_aggregate_state *states,
                         duckdb_vector result, idx_t n, idx_t offset) {
    double *out = duckdb_vector_get_data(result);
    for (idx_t i = 0; i < n; i++) {
        const auc_state *s = (const auc_state *)states[i];
        if (!s->lists[1].n) {
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

static void set_callbacks(duckdb_aggregate_function f, const metric *m) {
    if (m->take) {
        duckdb_aggregate_function_set_functions(f, score_size, score_init, score_update,
                                                score_combine, score_finalize);
    } else {
        duckdb_aggregate_function_set_functions(f, auc_size, auc_init, auc_update, auc_combine,
                                                auc_finalize);
        duckdb_aggregate_function_set_destructor(f, auc_destroy);
    }
}

static bool add_overload(duckdb_aggregate_function_set set, overload like) {
    overload *o = malloc(sizeof *o);
    if (!o)
        return false;
    *o = like;
    duckdb_aggregate_function f = duckdb_create_aggregate_function();
    duckdb_aggregate_function_set_name(f, o->metric->name);
    add_parameter(f, o->boolean_label);
    add_parameter(f, o->boolean_second);
    duckdb_logical_type number = duckdb_create_logical_type(DUCKDB_TYPE_DOUBLE);
    duckdb_aggregate_function_set_return_type(f, number);
    duckdb_destroy_logical_type(&number);
    set_callbacks(f, o->metric);
    duckdb_aggregate_function_set_special_handling(f);
    duckdb_aggregate_function_set_extra_info(f, o, free);
    bool added = duckdb_add_aggregate_function_to_set(set, f) == DuckDBSuccess;
    duckdb_destroy_aggregate_function(&f);
    return added;
}

static bool register_one(duckdb_connection connection, const metric *m) {
    duckdb_aggregate_function_set set = duckdb_create_aggregate_function_set(m->name);
    bool done = true;
    for (int second = 0; second <= m->boolean_second; second++)
        for (int label = 0; label < 2; label++)
            done = done && add_overload(set, (overload){m, label, second});
    done = done && duckdb_register_aggregate_function_set(connection, set) == DuckDBSuccess;
    duckdb_destroy_aggregate_function_set(&set);
    return done;
}

bool register_metrics(duckdb_connection connection) {
    const metric *const all[] = {&LOG_LOSS, &AUC, &ACCURACY, &RMSE, &MAE, &R2};
    bool done = true;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        done = done && register_one(connection, all[i]);
    return done;
}
