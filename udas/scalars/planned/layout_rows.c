#include "layout_parts.h"

#include "../named/preparation.h"

bool tusk_layout_match(tusk_layout *l, tusk_named_rows *rows, const tusk_scorer *s,
                       char *sentence) {
    tusk_shape *shape = l->shape;
    if (shape->schema == rows->schema)
        return true;
    if (!tusk_named_match(rows, s, sentence))
        return false;
    shape->fits = true;
    for (uint32_t i = 0; i < shape->n_columns; i++) {
        const tusk_given_column *given = rows->column + rows->match[i];
        shape->match[i] = rows->match[i];
        shape->fits &= shape->column[i].text ? given->texts != NULL : given->numbers != NULL;
    }
    shape->schema = rows->schema;
    return true;
}

static const double *pair_of(const double *pairs, uint32_t level) {
    uint32_t size = (uint32_t)pairs[0];
    const double *of = pairs + PAIRS_HEAD;
    if (level == TUSK_NO_LEVEL)
        return pairs;
    for (uint32_t at = place_of_pair(level, size);; at = (at + 1) & (size - 1))
        if (of[2 * at] == level)
            return of + 2 * at;
        else if (of[2 * at] == NO_PAIR)
            return pairs;
}

/* The weight of a level. */
static double level_weight(const tusk_layout *l, place c, uint32_t level) {
    const double *weight = l->weight + c.at;
    return c.n == PAIRS ? pair_of(weight, level)[1] : weight[level < c.n ? level : c.n];
}

/* The address that is read first for a level's weight. */
static const double *first_weight(const tusk_layout *l, place c, uint32_t level) {
    return l->weight + c.at + (c.n == PAIRS ? 0 : level < c.n ? level : c.n);
}

void tusk_layout_expect_places(const tusk_layout *l) {
    __builtin_prefetch(l);
    __builtin_prefetch((const char *)l + 64);
}

void tusk_layout_approach(const tusk_layout *l) {
    tusk_layout_expect_places(l);
    __builtin_prefetch((const char *)l + 128);
    __builtin_prefetch((const char *)l + 192);
}

void tusk_layout_expect(const tusk_layout *l, const tusk_named_rows *rows, uint64_t row) {
    const tusk_shape *shape = l->shape;
    if (shape->schema != rows->schema || !shape->fits)
        return;
    __builtin_prefetch(l->weight);
    for (uint32_t i = 0; i < shape->n_columns; i++) {
        const shaped *c = shape->column + i;
        place at = l->column[i];
        if (!c->category || !tusk_lexicon_knows(c->lexicon, rows))
            continue;
        __builtin_prefetch(first_weight(l, at, c->lexicon->row[row]));
    }
}

void tusk_layout_levels(const tusk_layout *l, const tusk_named_rows *rows, uint64_t row) {
    const tusk_shape *shape = l->shape;
    for (uint32_t i = 0; shape->fits && i < shape->n_columns; i++) {
        const shaped *c = shape->column + i;
        const tusk_given_column *given = rows->column + shape->match[i];
        if (!c->category || !tusk_given_valid(given, row))
            continue;
        if (tusk_lexicon_knows(c->lexicon, rows)) {
            shape->level[i] = c->lexicon->row[row];
            continue;
        }
        shape->level[i] = tusk_lexicon_look_up(c->lexicon, given, rows, row);
        __builtin_prefetch(first_weight(l, l->column[i], shape->level[i]));
    }
}

bool tusk_layout_sum(const tusk_layout *l, const tusk_named_rows *rows, uint64_t row,
                     double *margin, bool *null) {
    const tusk_shape *shape = l->shape;
    double sum = l->intercept;
    *null = false;
    if (!shape->fits)
        return false;
    for (uint32_t i = 0; i < shape->n_columns; i++) {
        const shaped *c = shape->column + i;
        const tusk_given_column *given = rows->column + shape->match[i];
        if (!tusk_given_valid(given, row)) {
            *null |= l->skips_gaps;
            sum += l->gap[i];
        } else if (c->category) {
            sum += level_weight(l, l->column[i], shape->level[i]);
        } else {
            double value = tusk_part_of(given->numbers[row], (enum tusk_date_part)c->part) + 0.0;
            sum += l->weight[l->column[i].at] * value;
        }
    }
    *margin = sum;
    return *null || sum == sum;
}

bool tusk_layout_margin(const tusk_layout *l, const tusk_named_rows *rows, uint64_t row,
                        double *margin, bool *null) {
    tusk_layout_levels(l, rows, row);
    return tusk_layout_sum(l, rows, row, margin, null);
}

/* Adds a column of some rows; false if one of them is NULL or if levels are not known. */
static bool add_column(const tusk_layout *l, uint32_t i, const tusk_named_rows *rows, uint64_t row,
                       uint64_t n, double *margins) {
    const shaped *c = l->shape->column + i;
    const tusk_given_column *given = rows->column + l->shape->match[i];
    place at = l->column[i];
    if (given->validity)
        return false;
    if (!c->category) {
        const double *x = given->numbers + row, w = l->weight[at.at];
        for (uint64_t k = 0; k < n; k++)
            margins[k] += w * (tusk_part_of(x[k], (enum tusk_date_part)c->part) + 0.0);
        return true;
    }
    const uint32_t *level = tusk_lexicon_rows(c->lexicon, given, rows, n);
    for (uint64_t k = 0; level && k < n; k++)
        margins[k] += level_weight(l, at, level[row + k]);
    return level;
}

bool tusk_layout_margins(const tusk_layout *l, const tusk_named_rows *rows, uint64_t row,
                         uint64_t n, double *margins) {
    if (!l->shape->fits)
        return false;
    for (uint64_t k = 0; k < n; k++)
        margins[k] = l->intercept;
    for (uint32_t i = 0; i < l->shape->n_columns; i++)
        if (!add_column(l, i, rows, row, n, margins))
            return false;
    return true;
}
