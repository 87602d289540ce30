/* Fold-in: the vector of a user who was not in the training, from his ratings.
 *
 * With phi_i = (1, q_i) and the targets t_i = r_i - mu - b_i it solves (Phi' Phi + n l2 I) x =
 * Phi' t, the half-step of alternating least squares for one user (Zhou, Wilkinson, Schreiber,
 * Pan, Large-scale parallel collaborative filtering for the Netflix Prize, 2008); for implicit
 * feedback (Y'Y + alpha sum of r_i y_i y_i' + l2 I) x = sum of (1 + alpha r_i) y_i (Hu, Koren,
 * Volinsky, Collaborative filtering for implicit feedback datasets, 2008, equation 4). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../models/json_member.h"
#include "../models/margins.h"
#include "recommend.h"

#define BREATHE 4096 /* vectors between two calls of breathe */
#define SINGULAR 1e-13

/* The normal equations, and how the model was trained. */
typedef struct normal {
    double *matrix, *right, *line; /* [d][d], [d], [d] */
    double *room;                  /* [d] for a vector */
    uint64_t d;
    double l2_biases, l2_factors, alpha;
    bool implicit;
} normal;

size_t tusk_fold_work(const tusk_scorer *s) {
    uint64_t d = s->factors.width;
    return d * d + 3 * d;
}

static bool member_is(tusk_text json, const char *name, const char *value) {
    tusk_text found = tusk_json_member(json, name);
    return found.data && found.length == strlen(value) &&
           memcmp(found.data, value, found.length) == 0;
}

static double number_in(tusk_text json, const char *name) {
    tusk_text found = tusk_json_member(json, name);
    char digits[64];
    if (!found.data || found.length >= sizeof digits)
        return NAN;
    memcpy(digits, found.data, found.length);
    digits[found.length] = 0;
    char *end;
    double value = strtod(digits, &end);
    return *digits && !*end ? value : NAN;
}

static bool refuse(char *sentence, const char *text) {
    snprintf(sentence, TUSK_SENTENCE, "%s", text);
    return false;
}

static bool read_options(tusk_text json, normal *e, char *sentence) {
    e->implicit = member_is(json, "feedback", "implicit");
    if (member_is(json, "loss", "bpr"))
        return refuse(sentence, "the model has option 'loss': 'bpr', which ranks, and no "
                                "least-squares solve gives a user's vector: expected 'squared'");
    e->l2_biases = e->l2_factors = number_in(json, "l2");
    if (member_is(json, "l2", "auto")) { /* the penalties that followed the unit of the ratings */
        e->l2_biases = number_in(json, "l2_biases");
        e->l2_factors = number_in(json, "l2_factors");
    }
    e->alpha = e->implicit ? number_in(json, "alpha") : 0;
    return (e->l2_biases >= 0 && e->l2_factors >= 0 && e->alpha >= 0) ||
           refuse(sentence, "the field 'options' of the model has no l2, expected those of its "
                            "training");
}

static void add_outer(normal *e, const double *line, double by) {
    for (uint64_t a = 0; a < e->d; a++)
        for (uint64_t b = 0; b <= a; b++)
            e->matrix[a * e->d + b] += by * line[a] * line[b];
}

/* Adds the products of all items' vectors, whose preferences are 0 with the confidence 1. */
static bool add_every_item(tusk_scorer *s, normal *e, void (*breathe)(void), char *sentence) {
    for (uint64_t i = 0; i < s->factors.n_items; i++) {
        if (breathe && i % BREATHE == 0)
            breathe();
        const tusk_weight *v = tusk_factor_vector(s, s->factors.n_users + i, e->room, sentence);
        if (!v)
            return false;
        memcpy(e->line, v, e->d * sizeof *e->line);
        add_outer(e, e->line, 1);
    }
    return true;
}

static bool check_rating(const normal *e, double rating, char *sentence) {
    if (isfinite(rating) && (!e->implicit || rating >= 0))
        return true;
    snprintf(sentence, TUSK_SENTENCE, "a rating is %.17g, expected a %s", rating,
             e->implicit ? "number of 0 or more, as the feedback of the training"
                         : "finite number");
    return false;
}

/* Adds one rating of an item; first: whether the item has no other before. */
static bool add_rating(tusk_scorer *s, normal *e, uint64_t item, double rating, bool first,
                       char *sentence) {
    const tusk_weight *v = tusk_factor_vector(s, s->factors.n_users + item, e->room, sentence);
    if (!v)
        return false;
    memcpy(e->line, v, e->d * sizeof *e->line);
    double target = rating - s->intercept;
    if (s->factors.biases) {
        target -= e->line[0];
        e->line[0] = 1;
    }
    double weight = e->implicit ? (first ? 1 : 0) + e->alpha * rating : target;
    add_outer(e, e->line, e->implicit ? e->alpha * rating : 1);
    for (uint64_t k = 0; k < e->d; k++)
        e->right[k] += weight * e->line[k];
    return true;
}

/* Cholesky's factorization of the lower triangle, and two substitutions. Directions that nothing
 * determines stay 0. */
static void solve(normal *e, double *x) {
    uint64_t d = e->d;
    double *m = e->matrix, most = 0;
    for (uint64_t k = 0; k < d; k++)
        most = fmax(most, m[k * d + k]);
    for (uint64_t a = 0; a < d; a++) {
        for (uint64_t b = 0; b <= a; b++) {
            double sum = m[a * d + b];
            for (uint64_t k = 0; k < b; k++)
                sum -= m[a * d + k] * m[b * d + k];
            if (b == a)
                m[a * d + a] = sum > SINGULAR * most ? sqrt(sum) : INFINITY;
            else
                m[a * d + b] = sum / m[b * d + b];
        }
    }
    for (uint64_t a = 0; a < d; a++) {
        x[a] = e->right[a];
        for (uint64_t k = 0; k < a; k++)
            x[a] -= m[a * d + k] * x[k];
        x[a] /= m[a * d + a];
    }
    for (uint64_t a = d; a-- > 0;) {
        for (uint64_t k = a + 1; k < d; k++)
            x[a] -= m[k * d + a] * x[k];
        x[a] /= m[a * d + a];
    }
}

/* Adds the ratings of items with a vector; *n: how many they are. */
static bool add_ratings(tusk_scorer *s, const tusk_wanted *w, normal *e, uint64_t *marks,
                        uint64_t *n, char *sentence) {
    for (uint64_t i = 0; i < w->n_rated; i++) {
        uint64_t item;
        if (!tusk_place_of(s, true, w->rated[i], &item, sentence) ||
            !check_rating(e, w->ratings[i], sentence))
            return false;
        if (item >= s->factors.n_items || (e->implicit && w->ratings[i] == 0))
            continue;
        const tusk_weight *v = tusk_factor_vector(s, s->factors.n_users + item, e->room, sentence);
        if (!v)
            return false;
        bool any = false;
        for (uint64_t k = 0; k < e->d; k++)
            any |= v[k] != 0;
        if (!any) /* without training rows, nothing is known of the item */
            continue;
        uint64_t bit = UINT64_C(1) << (item % 64);
        bool first = !(marks[item / 64] & bit);
        marks[item / 64] |= bit;
        if (!add_rating(s, e, item, w->ratings[i], first, sentence))
            return false;
        ++*n;
    }
    return true;
}

bool tusk_fold_in(tusk_scorer *s, const tusk_wanted *w, double *work, uint64_t *marks,
                  void (*breathe)(void), double *to, bool *known, char *sentence) {
    uint64_t d = s->factors.width, words = (s->factors.n_items + 63) / 64, n = 0;
    normal e = {.matrix = work, .right = work + d * d, .d = d};
    e.line = e.right + d;
    e.room = e.line + d;
    memset(work, 0, tusk_fold_work(s) * sizeof *work);
    memset(marks, 0, words * sizeof *marks);
    bool done = read_options(w->options, &e, sentence) &&
                add_ratings(s, w, &e, marks, &n, sentence) &&
                (!e.implicit || add_every_item(s, &e, breathe, sentence));
    memset(marks, 0, words * sizeof *marks);
    *known = n;
    if (!done)
        return false;
    for (uint64_t k = 0; k < d; k++) {
        const double l2 = k < s->factors.biases ? e.l2_biases : e.l2_factors;
        e.matrix[k * d + k] += e.implicit ? l2 : (double)n * l2;
    }
    solve(&e, to);
    return true;
}
