/* Predictions of a matrix factorization: intercept + bias of the user + bias of the item + the dot
 * product of their factors (Koren, Bell, Volinsky, "Matrix Factorization Techniques for
 * Recommender Systems", 2009, equation 4). */
#include <math.h>
#include <stdio.h>

#include "margins.h"

#define PIECE 256 /* elements of a vector that are held at a time */

static const char *const SIDES[2] = {"user", "item"};

static double number_at(const void *x, bool f64, uint64_t at) {
    return f64 ? ((const double *)x)[at] : (double)((const float *)x)[at];
}

/* Ids of any size are valid; ids that were not seen in training have zero vectors. */
static bool read_id(double given, int side, uint64_t count, uint64_t *id, char *sentence) {
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

static bool margin(tusk_scorer *s, double user, double item, double *sum, char *sentence) {
    const tusk_factors *f = &s->factors;
    uint64_t u, i;
    if (!read_id(user, 0, f->n_users, &u, sentence) || !read_id(item, 1, f->n_items, &i, sentence))
        return false;
    bool known_user = u < f->n_users, known_item = i < f->n_items;
    *sum = s->intercept;
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
