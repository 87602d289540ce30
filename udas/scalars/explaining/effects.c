/* Sums over rows for average marginal effects. With the margin m, the mean g(m) and the sum W of
 * the weights, the effect of a number j is sum(w g'(m) b_j) / W, and its gradient by all
 * coefficients is (sum(w g''(m) b_j x) + sum(w g'(m)) e_j) / W; of a column with products, b_j and
 * e_j are those of the direction in which it moves the row. A change has the effect
 * sum(w (g(m1) - g(m0))) / W and the gradient sum(w (g'(m1) x1 - g'(m0) x0)) / W. */
#include "effects.h"

#include <stdio.h>
#include <string.h>

#include "../metrics/metric.h"
#include "../models/entries.h"
#include "../models/interval.h"
#include "../models/payload.h"
#include "../named/preparation.h"
#include "../student.h"

#define NO_COLUMN UINT32_MAX
#define NONE UINT64_MAX
enum place { AS_IT_IS, COMPARED, CHANGED }; /* of shares of columns */

/* A feature that has an effect. */
typedef struct effect_term {
    tusk_sum slope, change;
    uint64_t slopes, changes; /* indices of their gradients among those of all terms; NONE */
    uint64_t name, name_length;
    uint32_t column;   /* of rows with names; NO_COLUMN: of a list */
    int32_t feature;   /* its coefficient */
    int32_t reference; /* of a level, what it is compared with; -1: no feature */
    bool is_level, has_products;
    bool zero, one, other; /* values that a number has had */
} effect_term;

struct tusk_effects {
    uint64_t size;
    uint64_t n_coef, n_terms, n_gradients;
    uint64_t payload, n_payload; /* its place in these bytes */
    tusk_sum weight, slope;      /* sum(w) and sum(w g') */
    bool has_errors;             /* then the gradients follow the terms: first sum(w g'' x) */
};

static bool refuse(char *sentence, const char *text) {
    snprintf(sentence, TUSK_SENTENCE, "%s", text);
    return false;
}

static effect_term *terms_of(const tusk_effects *e) {
    return (effect_term *)(e + 1);
}

/* Gradient k, (1 + n_coef,), the intercept's number first; 0: sum(w g'' x). */
static double *gradient_at(const tusk_effects *e, uint64_t k) {
    return (double *)(terms_of(e) + e->n_terms) + k * (e->n_coef + 1);
}

/* --- which features have effects --- */

static bool has_products(tusk_text all, uint32_t n_columns, uint32_t column) {
    for (uint32_t i = column + 1; i < n_columns; i++) {
        tusk_preparation_column c = tusk_preparation_at(all, i);
        for (uint32_t f = 0; c.becomes == TUSK_AS_PRODUCT && f < c.n_factors; f++)
            if (c.factor[f] == column)
                return true;
    }
    return false;
}

/* Adds the terms of a column behind n others; out: NULL to count them. More than
 * TUSK_MOST_EFFECTS mean too many. */
static uint64_t column_terms(tusk_text all, uint32_t n_columns, uint32_t i, effect_term *out,
                             uint64_t n) {
    tusk_preparation_column c = tusk_preparation_at(all, i);
    bool levels = c.becomes == TUSK_AS_CATEGORY;
    if (!levels && c.becomes != TUSK_AS_NUMBER)
        return n;
    effect_term like = {.column = i, .is_level = levels, .reference = -1};
    if (c.first < 0 || c.first > TUSK_MOST_EFFECTS || c.width > TUSK_MOST_EFFECTS)
        return TUSK_MOST_EFFECTS + 1;
    int32_t from = c.first, to = c.first + (levels ? (int32_t)c.width : 1);
    if (levels && !c.reference)
        like.reference = from++;
    like.has_products = out && has_products(all, n_columns, i);
    for (int32_t feature = from; feature < to; feature++, n++)
        if (out) {
            out[n] = like;
            out[n].feature = feature;
        }
    return n;
}

static uint64_t list_terms(const tusk_scorer *s, effect_term *out) {
    uint64_t n = 0;
    tusk_preparation_head head;
    if (!s->preparation.length) {
        for (; n < s->n_coef; n++)
            if (out)
                out[n] = (effect_term){.column = NO_COLUMN, .feature = (int32_t)n};
        return n;
    }
    memcpy(&head, s->preparation.data, sizeof head);
    for (uint32_t i = 0; i < head.n_columns && n <= TUSK_MOST_EFFECTS; i++)
        n = column_terms(s->preparation, head.n_columns, i, out, n);
    return n;
}

/* Numbers the gradients of terms; returns how many there are. */
static uint64_t number_gradients(effect_term *terms, uint64_t n, bool has_errors) {
    uint64_t next = 1;
    for (uint64_t k = 0; k < n; k++) {
        terms[k].changes = has_errors ? next++ : NONE;
        terms[k].slopes = has_errors && terms[k].has_products ? next++ : NONE;
    }
    return has_errors ? next : 0;
}

/* The name of a feature, as model_summary has it. */
static tusk_text name_of(const tusk_effects *e, const tusk_class_names *names, uint64_t feature,
                         char own[32]) {
    if (names->n >= e->n_coef && names->n > feature) {
        tusk_text given = names->text_at(names->names, names->first + feature);
        if (given.data)
            return given;
    }
    int length = snprintf(own, 32, "x%llu", (unsigned long long)feature + 1);
    return (tusk_text){own, (size_t)length};
}

static uint64_t names_length(const tusk_effects *e, const effect_term *terms,
                             const tusk_class_names *names) {
    uint64_t length = 0;
    char own[32];
    for (uint64_t k = 0; k < e->n_terms; k++)
        length += name_of(e, names, (uint64_t)terms[k].feature, own).length;
    return length;
}

tusk_effects *tusk_effects_new(const tusk_scorer *s, tusk_text payload,
                               const tusk_class_names *names, tusk_grow room, char *sentence) {
    tusk_effects head = {.n_coef = s->n_coef,
                         .n_payload = payload.length,
                         .has_errors = s->spread.kind == TUSK_COVARIANCE};
    if (s->n_coef <= TUSK_MOST_EFFECTS)
        head.n_terms = list_terms(s, NULL);
    if (s->n_coef > TUSK_MOST_EFFECTS || head.n_terms > TUSK_MOST_EFFECTS) {
        snprintf(sentence, TUSK_SENTENCE, "the model has %llu features, expected at most %d",
                 (unsigned long long)(s->n_coef > head.n_terms ? s->n_coef : head.n_terms),
                 TUSK_MOST_EFFECTS);
        return NULL;
    }
    effect_term terms[TUSK_MOST_EFFECTS];
    list_terms(s, terms);
    head.n_gradients = number_gradients(terms, head.n_terms, head.has_errors);
    uint64_t numbers = head.n_gradients * (s->n_coef + 1) * sizeof(double);
    uint64_t name = sizeof head + head.n_terms * sizeof *terms + numbers;
    head.payload = name + names_length(&head, terms, names);
    head.size = head.payload + payload.length;
    tusk_effects *e = room.grow(NULL, head.size, room.context);
    if (!e) {
        refuse(sentence, "out of memory");
        return NULL;
    }
    *e = head;
    for (uint64_t k = 0; k < e->n_terms; k++) {
        char own[32];
        tusk_text given = name_of(e, names, (uint64_t)terms[k].feature, own);
        terms[k].name = name;
        terms[k].name_length = given.length;
        memcpy((char *)e + name, given.data, given.length);
        name += given.length;
        terms_of(e)[k] = terms[k];
    }
    memset(gradient_at(e, 0), 0, numbers);
    memcpy((char *)e + e->payload, payload.data, payload.length);
    return e;
}

size_t tusk_effects_size(const tusk_effects *e) {
    return e->size;
}

bool tusk_effects_fit(const void *bytes, size_t size) {
    tusk_effects e;
    if (size < sizeof e)
        return false;
    memcpy(&e, bytes, sizeof e);
    return e.size == size && e.n_coef <= TUSK_MOST_EFFECTS && e.n_terms <= TUSK_MOST_EFFECTS &&
           e.n_gradients <= 2 * e.n_terms + 1 && e.payload + e.n_payload == size &&
           sizeof e + e.n_terms * sizeof(effect_term) +
                   e.n_gradients * (e.n_coef + 1) * sizeof(double) <=
               e.payload;
}

tusk_text tusk_effects_model(const tusk_effects *e) {
    return (tusk_text){(const char *)e + e->payload, e->n_payload};
}

/* The head of a payload has the CRC of all other bytes. */
bool tusk_effects_of(const tusk_effects *e, tusk_text payload, char *sentence) {
    return (e->n_payload == payload.length &&
            memcmp(tusk_effects_model(e).data, payload.data, sizeof(tusk_payload_head)) == 0) ||
           refuse(sentence, TUSK_OTHER_EFFECTS);
}

/* --- links --- */

static double mean_at(const tusk_scorer *s, double m) {
    if (tusk_has_classes(s))
        tusk_to_probabilities(s, &m, 1);
    else
        tusk_to_predictions(s, &m, 1);
    return m;
}

static double logistic_slope(double m, double *curve) {
    double e = exp(-fabs(m)), slope = e / ((1 + e) * (1 + e));
    *curve = slope * (m < 0 ? 1 - e : e - 1) / (1 + e);
    return slope;
}

/* The first derivative of the mean by the margin; *curve: the second one. */
static double slope_at(const tusk_scorer *s, double m, double *curve) {
    double slope;
    switch (s->response) {
    case TUSK_EXP:
        return *curve = exp(m);
    case TUSK_INVERSE:
        *curve = 2 / (m * m * m);
        return -1 / (m * m);
    case TUSK_SQUARE:
        *curve = 2;
        return 2 * m;
    case TUSK_INVERSE_ROOT:
        *curve = 0.75 / (m * m * sqrt(m));
        return -0.5 / (m * sqrt(m));
    case TUSK_NORMAL_SHARE:
        slope = 0.39894228040143267794 * exp(-0.5 * m * m);
        *curve = -m * slope;
        return slope;
    case TUSK_CLOGLOG_SHARE:
        slope = exp(m - exp(m));
        *curve = slope * (1 - exp(m));
        return slope;
    default:
        *curve = 0;
        return tusk_has_classes(s) || s->response == TUSK_INVERSE_LOGIT ? logistic_slope(m, curve)
                                                                        : 1;
    }
}

/* --- rows --- */

/* A row while it is added. Its features are either in `features`, by id, or in `dense`. */
typedef struct adding {
    tusk_effects *e;
    const tusk_scorer *s;
    const tusk_effect_row *row;
    tusk_sparse_row features;
    bool f64, by_id;
    const double *dense;
    double margin, slope, curve; /* slope and curve times the weight */
    char *sentence;
} adding;

static double share_margin(const adding *a, const tusk_sparse_row *share) {
    double sum = 0;
    for (uint64_t i = 0; i < share->n_ids; i++) {
        uint64_t id = (uint64_t)((const int32_t *)share->ids)[i];
        if (id < a->s->n_coef)
            sum += a->s->coef[id] * ((const double *)share->values)[i];
    }
    return sum;
}

/* Adds c times the features of a share to a gradient. */
static void add_share(const adding *a, double *gradient, double c, const tusk_sparse_row *share) {
    for (uint64_t i = 0; i < share->n_ids; i++) {
        uint64_t id = (uint64_t)((const int32_t *)share->ids)[i];
        if (id < a->e->n_coef)
            gradient[1 + id] += c * ((const double *)share->values)[i];
    }
}

/* Adds c times the row, with 1 for the intercept, to a gradient. */
static void add_row(const adding *a, double *gradient, double c) {
    if (c == 0)
        return;
    gradient[0] += c;
    for (uint64_t j = 0; !a->by_id && j < a->e->n_coef; j++)
        gradient[1 + j] += c * a->dense[j];
    for (uint64_t i = 0; a->by_id && i < a->features.n_ids; i++) {
        uint64_t id = (uint64_t)tusk_id_at(&a->features, i);
        if (id < a->e->n_coef)
            gradient[1 + id] += c * tusk_number_at(a->features.values, a->f64, i);
    }
}

/* What a column takes part in as the row is, or with one feature instead; -1: none. */
static bool read_share(const adding *a, const effect_term *t, enum place place, int32_t feature,
                       tusk_sparse_row *share) {
    const tusk_named_change change = {.column = t->column,
                                      .as_it_is = place == AS_IT_IS,
                                      .feature = feature,
                                      .value = 1,
                                      .alone = !t->has_products};
    return tusk_named_share_of(a->row->named, a->s, &change, place, share, a->sentence);
}

/* Two versions of a row that differ in one column, and the row itself. */
typedef struct comparison {
    tusk_sparse_row own, from, to;
    double without;     /* the margin without the column */
    double mean, slope; /* of `from` */
} comparison;

static void compare_from(const adding *a, comparison *c) {
    double curve, m;
    c->without = a->margin - share_margin(a, &c->own);
    m = c->without + share_margin(a, &c->from);
    c->mean = mean_at(a->s, m);
    c->slope = slope_at(a->s, m, &curve) * a->row->weight;
}

static void compare_to(const adding *a, const comparison *c, effect_term *t) {
    double m = c->without + share_margin(a, &c->to), curve, slope;
    tusk_sum_add(&t->change, (mean_at(a->s, m) - c->mean) * a->row->weight);
    if (t->changes == NONE)
        return;
    double *gradient = gradient_at(a->e, t->changes);
    slope = slope_at(a->s, m, &curve) * a->row->weight;
    add_row(a, gradient, slope - c->slope);
    add_share(a, gradient, c->slope - slope, &c->own);
    add_share(a, gradient, slope, &c->to);
    add_share(a, gradient, -c->slope, &c->from);
}

/* Adds a row to the n terms of one category. */
static bool add_levels(const adding *a, effect_term *terms, uint64_t n) {
    comparison c;
    if (!read_share(a, terms, AS_IT_IS, 0, &c.own) ||
        !read_share(a, terms, COMPARED, terms->reference, &c.from))
        return false;
    compare_from(a, &c);
    for (uint64_t k = 0; k < n; k++) {
        if (!read_share(a, terms + k, CHANGED, terms[k].feature, &c.to))
            return false;
        compare_to(a, &c, terms + k);
    }
    return true;
}

/* Adds the derivative by a column with products: `to` is the direction. */
static void add_slope(const adding *a, const tusk_sparse_row *to, effect_term *t) {
    double along = share_margin(a, to);
    tusk_sum_add(&t->slope, a->slope * along);
    if (t->slopes == NONE)
        return;
    double *gradient = gradient_at(a->e, t->slopes);
    add_row(a, gradient, a->curve * along);
    add_share(a, gradient, a->slope, to);
}

static void note_value(effect_term *t, double x) {
    t->zero |= x == 0;
    t->one |= x == 1;
    t->other |= x != 0 && x != 1;
}

static bool add_number(const adding *a, effect_term *t) {
    comparison c = {.own = {.n_ids = 0}};
    int32_t feature = t->feature;
    double x = 0, one = 1;
    if (t->column == NO_COLUMN) {
        x = a->dense[feature];
        c.own = (tusk_sparse_row){.ids = &feature, .values = &x, .n_ids = 1, .n_values = 1};
        c.to = (tusk_sparse_row){.ids = &feature, .values = &one, .n_ids = 1, .n_values = 1};
    } else {
        if (!read_share(a, t, AS_IT_IS, 0, &c.own) || !read_share(a, t, CHANGED, feature, &c.to))
            return false;
        x = c.own.n_ids ? ((const double *)c.own.values)[0] : 0;
    }
    note_value(t, x);
    if (t->has_products)
        add_slope(a, &c.to, t);
    if (t->other)
        return true;
    compare_from(a, &c);
    compare_to(a, &c, t);
    return true;
}

/* Numbers of a row as doubles, by feature. */
static void spread_row(adding *a, double *x) {
    const tusk_effect_row *row = a->row;
    const uint64_t n = a->e->n_coef;
    a->dense = x;
    if (row->sparse) {
        a->by_id = true;
        a->features = *row->sparse;
        memset(x, 0, n * sizeof *x);
        for (uint64_t i = 0; i < a->features.n_ids; i++) {
            uint64_t id = (uint64_t)tusk_id_at(&a->features, i);
            if (id < n)
                x[id] += tusk_number_at(a->features.values, a->f64, i);
        }
        return;
    }
    for (uint64_t j = 0; j < n; j++)
        x[j] = tusk_number_at(row->x, row->f64, j);
}

/* The margin of a row, without its offset; *null: it has none. */
static bool read_margin(adding *a, tusk_scorer *s, bool *null) {
    const tusk_effect_row *row = a->row;
    a->f64 = row->named || row->f64;
    if (row->named) {
        a->by_id = true;
        if (!tusk_named_row(row->named, s, row->at, &a->features, null, a->sentence))
            return false;
        return *null || tusk_sparse_margin(s, &a->features, true, &a->margin, a->sentence);
    }
    return row->sparse ? tusk_sparse_margin(s, row->sparse, row->f64, &a->margin, a->sentence)
                       : tusk_margins(s, row->x, row->f64, row->d, 1, &a->margin, a->sentence);
}

/* The number of terms, from k on, of the same category. */
static uint64_t levels_from(const effect_term *terms, uint64_t n, uint64_t k) {
    uint64_t end = k + 1;
    while (end < n && terms[end].column == terms[k].column)
        end++;
    return end - k;
}

bool tusk_effects_add(tusk_effects *e, tusk_scorer *s, const tusk_effect_row *row,
                      char *sentence) {
    adding a = {.e = e, .s = s, .row = row, .sentence = sentence};
    double x[TUSK_MOST_EFFECTS];
    bool null = false;
    if (!tusk_good_weight(row->weight, sentence))
        return false;
    if (row->weight == 0)
        return true;
    if (!read_margin(&a, s, &null))
        return false;
    if (null)
        return true;
    if (!row->named)
        spread_row(&a, x);
    a.margin += row->offset;
    a.slope = slope_at(s, a.margin, &a.curve) * row->weight;
    a.curve *= row->weight;
    tusk_sum_add(&e->weight, row->weight);
    tusk_sum_add(&e->slope, a.slope);
    if (e->has_errors)
        add_row(&a, gradient_at(e, 0), a.curve);
    effect_term *terms = terms_of(e);
    for (uint64_t k = 0, n; k < e->n_terms; k += n) {
        n = terms[k].is_level ? levels_from(terms, e->n_terms, k) : 1;
        if (!(terms[k].is_level ? add_levels(&a, terms + k, n) : add_number(&a, terms + k)))
            return false;
    }
    return true;
}

bool tusk_effects_merge(tusk_effects *target, const tusk_effects *source, char *sentence) {
    if (!tusk_effects_of(target, tusk_effects_model(source), sentence))
        return false;
    tusk_sum_merge(&target->weight, &source->weight);
    tusk_sum_merge(&target->slope, &source->slope);
    effect_term *to = terms_of(target);
    const effect_term *from = terms_of(source);
    for (uint64_t k = 0; k < target->n_terms; k++) {
        tusk_sum_merge(&to[k].slope, &from[k].slope);
        tusk_sum_merge(&to[k].change, &from[k].change);
        to[k].zero |= from[k].zero;
        to[k].one |= from[k].one;
        to[k].other |= from[k].other;
    }
    double *sums = gradient_at(target, 0);
    const double *others = gradient_at(source, 0);
    for (uint64_t i = 0; i < target->n_gradients * (target->n_coef + 1); i++)
        sums[i] += others[i];
    return true;
}

/* --- results --- */

/* |L' g| / W for the factor L of the covariance. */
static double error_of(const tusk_scorer *s, const double *gradient, double weight) {
    double square = 0;
    for (uint64_t k = 0; k <= s->n_coef; k++) {
        const tusk_weight *row = s->spread.items + k * (k + 1) / 2;
        double sum = 0;
        for (uint64_t i = k; i <= s->n_coef; row += ++i)
            sum += row[k] * gradient[i];
        square += sum * sum;
    }
    return square > 0 ? sqrt(square) / weight : NAN;
}

static tusk_effect effect_of(const tusk_effects *e, const tusk_scorer *s, const effect_term *t) {
    double weight = tusk_sum_total(&e->weight), slope = tusk_sum_total(&e->slope);
    bool known = (uint64_t)t->feature < e->n_coef; /* others weigh nothing */
    double coef = known ? s->coef[t->feature] : 0;
    bool changes = t->is_level || (t->zero && t->one && !t->other);
    tusk_effect found = {.feature = (uint64_t)t->feature, .std_err = NAN};
    if (changes)
        found.effect = tusk_sum_total(&t->change) / weight;
    else if (t->has_products)
        found.effect = tusk_sum_total(&t->slope) / weight;
    else
        found.effect = slope / weight * coef;
    if (!e->has_errors)
        return found;
    if (changes || t->has_products) {
        found.std_err = error_of(s, gradient_at(e, changes ? t->changes : t->slopes), weight);
        return found;
    }
    double own[TUSK_MOST_EFFECTS + 1];
    for (uint64_t i = 0; i <= e->n_coef; i++)
        own[i] = coef * gradient_at(e, 0)[i];
    if (known)
        own[1 + t->feature] += slope;
    found.std_err = error_of(s, own, weight);
    return found;
}

bool tusk_effects_known(const tusk_effects *e) {
    return tusk_sum_total(&e->weight) > 0;
}

uint64_t tusk_effects_give(const tusk_effects *e, tusk_effect *out, double *freedom) {
    tusk_scorer s;
    char sentence[TUSK_SENTENCE];
    const tusk_stores none = {.cache = NULL};
    if (!tusk_read_model(tusk_effects_model(e), &none, TUSK_MARGINAL_EFFECTS, &s, sentence))
        return 0; /* it was read before */
    *freedom = s.spread.freedom;
    for (uint64_t k = 0; k < e->n_terms; k++)
        out[k] = effect_of(e, &s, terms_of(e) + k);
    return e->n_terms;
}

const tusk_table TUSK_EFFECTS_TABLE = {7,
                                       {{"term", TUSK_TEXT_CELL},
                                        {"effect", TUSK_NUMBER_CELL},
                                        {"std_err", TUSK_NUMBER_CELL},
                                        {"statistic", TUSK_NUMBER_CELL},
                                        {"p_value", TUSK_NUMBER_CELL},
                                        {"lower", TUSK_NUMBER_CELL},
                                        {"upper", TUSK_NUMBER_CELL}}};

static tusk_cell known_number(double x) {
    return (tusk_cell){.number = x, .null = isnan(x)};
}

void tusk_effects_write(const tusk_effects *e, tusk_writer writer) {
    tusk_effect found[TUSK_MOST_EFFECTS];
    double freedom = NAN;
    uint64_t n = tusk_effects_give(e, found, &freedom);
    double reach = tusk_t_of_interval(freedom);
    for (uint64_t k = 0; k < n; k++) {
        const effect_term *t = terms_of(e) + k;
        double effect = found[k].effect, error = found[k].std_err;
        tusk_row row = {
            {.words = (const char *)e + t->name, .length = (int32_t)t->name_length},
            known_number(effect),
            known_number(error),
            known_number(effect / error),
            known_number(tusk_two_sided_p(effect / error, freedom)),
            known_number(effect - reach * error),
            known_number(effect + reach * error),
        };
        if (!writer.write(row, writer.context))
            return;
    }
}
