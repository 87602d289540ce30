/* Margins of models whose weights are in a sealed file. Only the weights that the rows need are
 * read. */
#include <stdio.h>
#include <string.h>

#include "margins.h"

#define PIECE 256 /* weights that are held at a time */

bool tusk_refuse_stored(tusk_scorer *s, const sealed_error *e, char *sentence) {
    s->sqlstate = e->sqlstate;
    snprintf(sentence, TUSK_SENTENCE, "%s", e->text);
    return false;
}

static const char *item(const void *x, bool f64, uint64_t at) {
    return (const char *)x + at * (f64 ? sizeof(double) : sizeof(float));
}

/* The weights of a piece are read once for all rows. Every row is summed in the same order,
 * whatever rows are around it. */
bool tusk_stored_margins(tusk_scorer *s, const void *x, bool f64, uint64_t d, uint64_t n,
                         double *out, char *sentence) {
    double w[PIECE];
    sealed_error e;
    for (uint64_t i = 0; i < n; i++)
        out[i] = s->intercept;
    for (uint64_t k = 0; k < d; k += PIECE) {
        uint64_t m = d - k < PIECE ? d - k : PIECE;
        if (!sealed_file_range(s->stored, k, m, w, &e))
            return tusk_refuse_stored(s, &e, sentence);
        for (uint64_t i = 0; i < n; i++)
            tusk_dot_rows(item(x, f64, i * d + k), f64, m, 1, w, out[i], out + i);
    }
    return true;
}

/* Ids not seen in training add nothing, like ids beyond the coefficients of a model stored as a
 * value. */
#define DEFINE_ADD(name, T)                                                   \
    static double name(double sum, const T *x, const double *w, uint64_t n) { \
        for (uint64_t i = 0; i < n; i++)                                      \
            sum += w[i] != 0 ? x[i] * w[i] : 0;                               \
        return sum;                                                           \
    }

DEFINE_ADD(add_f32, float)
DEFINE_ADD(add_f64, double)

bool tusk_stored_sparse_margin(tusk_scorer *s, const tusk_sparse_row *row, bool f64, double *out,
                               char *sentence) {
    double w[PIECE], sum = s->intercept;
    sealed_error e;
    if (!tusk_check_ids(row, sentence))
        return false;
    for (uint64_t k = 0; k < row->n_ids; k += PIECE) {
        uint64_t m = row->n_ids - k < PIECE ? row->n_ids - k : PIECE;
        const char *ids = (const char *)row->ids + k * (row->wide ? 8 : 4);
        if (!sealed_file_gather(s->stored, ids, row->wide, (int64_t)m, w, &e))
            return tusk_refuse_stored(s, &e, sentence);
        const void *x = item(row->values, f64, k);
        sum = f64 ? add_f64(sum, x, w, m) : add_f32(sum, x, w, m);
    }
    *out = sum;
    return true;
}

/* For K classes, the numbers from id K on are the weights of feature id - 1, one for each
 * class; those of the intercept come first. Features from 2^64 / K on have none. */
static bool add_classes(tusk_scorer *s, uint64_t feature, double value, double *out,
                        char *sentence) {
    double w[TUSK_MOST_OUTPUTS];
    sealed_error e;
    if (value == 0 || feature > UINT64_MAX / s->n_classes - 1)
        return true;
    if (!sealed_file_range(s->stored, feature * s->n_classes, s->n_classes, w, &e))
        return tusk_refuse_stored(s, &e, sentence);
    for (uint64_t k = 0; k < s->n_classes; k++)
        out[k] += w[k] != 0 ? value * w[k] : 0;
    return true;
}

static double number(const void *x, bool f64, uint64_t at) {
    return f64 ? ((const double *)x)[at] : ((const float *)x)[at];
}

bool tusk_stored_class_margins(tusk_scorer *s, const tusk_sparse_row *sparse, const void *x,
                               bool f64, uint64_t d, double *out, char *sentence) {
    memset(out, 0, s->n_classes * sizeof *out);
    if (!add_classes(s, 0, 1, out, sentence))
        return false;
    if (sparse && !tusk_check_ids(sparse, sentence))
        return false;
    uint64_t n = sparse ? sparse->n_ids : d;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t feature = sparse ? (uint64_t)tusk_id_at(sparse, i) : i;
        double value = number(sparse ? sparse->values : x, f64, i);
        if (!add_classes(s, feature + 1, value, out, sentence))
            return false;
    }
    return true;
}
