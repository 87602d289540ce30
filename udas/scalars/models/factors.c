/* Predictions of a matrix factorization: intercept + bias of the user + bias of the item + the dot
 * product of their factors (Koren, Bell, Volinsky, "Matrix Factorization Techniques for
 * Recommender Systems", 2009, equation 4). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "margins.h"

#define PIECE 256    /* elements of a vector that are held at a time */
#define BREATHE 4096 /* vectors between two calls of breathe */

static const char *const SIDES[2] = {"user", "item"};

static double number_at(const void *x, bool f64, uint64_t at) {
    return f64 ? ((const double *)x)[at] : (double)((const float *)x)[at];
}

/* Ids of any size are valid; ids that were not seen in training have zero vectors, and unseen
 * names are NaN. */
static bool read_id(const tusk_scorer *s, double given, int side, uint64_t count, uint64_t *id,
                    char *sentence) {
    if (isnan(given) && s->preparation.length) {
        *id = count;
        return true;
    }
    if (given >= 0 && isfinite(given) && given == floor(given)) {
        *id = given < (double)count ? (uint64_t)given : count;
        return true;
    }
    snprintf(sentence, TUSK_SENTENCE,
             "feature %d, the %s, is %.17g, expected an integer id from 0 on", side + 1,
             SIDES[side], given);
    return false;
}

/* Elements k .. k + n - 1 of a vector, either in place or copied into room. */
static const tusk_weight *elements(tusk_scorer *s, uint64_t vector, uint64_t k, uint64_t n,
                                   double *room, char *sentence) {
    uint64_t at = vector * s->factors.width + k;
    sealed_error e;
    if (!s->stored)
        return s->coef + at;
    if (sealed_file_range(s->stored, at, n, room, &e))
        return room;
    tusk_refuse_stored(s, &e, sentence);
    return NULL;
}

const tusk_weight *tusk_factor_vector(tusk_scorer *s, uint64_t vector, double *room,
                                      char *sentence) {
    return elements(s, vector, 0, s->factors.width, room, sentence);
}

static bool add_bias(tusk_scorer *s, uint64_t vector, double *sum, char *sentence) {
    double room;
    const tusk_weight *bias = elements(s, vector, 0, 1, &room, sentence);
    if (bias)
        *sum += *bias;
    return bias;
}

static bool add_product(tusk_scorer *s, uint64_t user, uint64_t item, double *sum,
                        char *sentence) {
    double rooms[2][PIECE];
    uint64_t width = s->factors.width;
    for (uint64_t k = s->factors.biases, n; k < width; k += n) {
        n = width - k < PIECE ? width - k : PIECE;
        const tusk_weight *u = elements(s, user, k, n, rooms[0], sentence);
        const tusk_weight *v = u ? elements(s, item, k, n, rooms[1], sentence) : NULL;
        if (!v)
            return false;
        tusk_dot_rows(u, true, n, 1, v, *sum, sum);
    }
    return true;
}

/* Whether a vector is of an id with training rows. */
static bool is_zero(const tusk_weight *v, uint64_t n) {
    for (uint64_t k = 0; k < n; k++)
        if (v[k] != 0)
            return false;
    return true;
}

const double *tusk_mean_user(tusk_scorer *s, void (*breathe)(void), char *sentence) {
    uint64_t width = s->factors.width, users = 0;
    if (s->averaged)
        return s->average;
    free(s->average);
    s->average = calloc(2 * width, sizeof *s->average);
    if (!s->average) {
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return NULL;
    }
    for (uint64_t u = 0; u < s->factors.n_users; u++) {
        if (breathe && u % BREATHE == 0)
            breathe();
        const tusk_weight *v = tusk_factor_vector(s, u, s->average + width, sentence);
        if (!v)
            return NULL;
        users += !is_zero(v, width);
        for (uint64_t k = 0; k < width; k++)
            s->average[k] += v[k];
    }
    for (uint64_t k = 0; users && k < width; k++)
        s->average[k] /= (double)users;
    s->averaged = true;
    return s->average;
}

/* Without biases an unknown user is the mean of users, as tusk_recommend has it. */
static bool add_mean_user(tusk_scorer *s, uint64_t item, double *sum, char *sentence) {
    const double *user = tusk_mean_user(s, NULL, sentence);
    const tusk_weight *v =
        user ? tusk_factor_vector(s, item, s->average + s->factors.width, sentence) : NULL;
    if (v)
        tusk_dot_rows(user, true, s->factors.width, 1, v, *sum, sum);
    return v;
}

/* Whether a user has a vector; without biases an unknown one may lie between others. */
static bool knows_user(tusk_scorer *s, uint64_t u, bool *known, char *sentence) {
    *known = u < s->factors.n_users;
    if (!*known || s->factors.biases)
        return true;
    double room[PIECE];
    bool zero = true;
    for (uint64_t k = 0, n; zero && k < s->factors.width; k += n) {
        n = s->factors.width - k < PIECE ? s->factors.width - k : PIECE;
        const tusk_weight *v = elements(s, u, k, n, room, sentence);
        if (!v)
            return false;
        zero = is_zero(v, n);
    }
    *known = !zero;
    return true;
}

static bool margin(tusk_scorer *s, double user, double item, double *sum, char *sentence) {
    const tusk_factors *f = &s->factors;
    uint64_t u, i;
    bool known_user;
    if (!read_id(s, user, 0, f->n_users, &u, sentence) ||
        !read_id(s, item, 1, f->n_items, &i, sentence) || !knows_user(s, u, &known_user, sentence))
        return false;
    bool known_item = i < f->n_items;
    *sum = s->intercept;
    if (!known_user && !f->biases)
        return !known_item || add_mean_user(s, f->n_users + i, sum, sentence);
    return (!f->biases || !known_user || add_bias(s, u, sum, sentence)) &&
           (!f->biases || !known_item || add_bias(s, f->n_users + i, sum, sentence)) &&
           (!known_user || !known_item || add_product(s, u, f->n_users + i, sum, sentence));
}

bool tusk_factor_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                         double *out, char *sentence) {
    if (d != 2) {
        snprintf(sentence, TUSK_SENTENCE, "row has %llu features, expected two, [user, item]",
                 (unsigned long long)d);
        return false;
    }
    for (uint64_t i = 0; i < n; i++)
        if (!margin(s, number_at(x, f64, 2 * i), number_at(x, f64, 2 * i + 1), out + i, sentence))
            return false;
    return true;
}

bool tusk_factor_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                               char *sentence) {
    double ids[2] = {NAN, NAN};
    if (!s->preparation.length) {
        snprintf(sentence, TUSK_SENTENCE,
                 "row has sparse features, a model of matrix_factorization expects [user, item]");
        return false;
    }
    for (uint64_t k = 0; k < row->n_ids; k++)
        if (tusk_id_at(row, k) < 2)
            ids[tusk_id_at(row, k)] = number_at(row->values, f64, k);
    return margin(s, ids[0], ids[1], out, sentence);
}
