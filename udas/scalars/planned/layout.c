#include "layout_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../models/kinds.h"
#include "../named/preparation.h"

/* Limits from which a model has pairs, as the lexicon has far more levels. */
#define MORE_LEVELS 4
#define FEW_LEVELS 64

/* --- shapes --- */

void tusk_layouts_free(tusk_layouts *all) {
    for (tusk_shape *s = all->shapes, *next; s; s = next) {
        next = s->next;
        free(s->match);
        free(s);
    }
    tusk_lexica_free(&all->lexica);
    *all = (tusk_layouts){0};
}

static tusk_shape *new_shape(uint32_t n) {
    tusk_shape *s = calloc(1, sizeof *s + n * sizeof *s->column);
    if (s && !(s->match = calloc(2 * (size_t)n + 1, sizeof *s->match))) {
        free(s);
        return NULL;
    }
    if (s) {
        s->n_columns = n;
        s->level = s->match + n;
    }
    return s;
}

/* An equal shape that is known, or this one. */
static tusk_shape *known_shape(tusk_layouts *all, tusk_shape *made) {
    size_t bytes = made->n_columns * sizeof *made->column;
    for (tusk_shape *s = all->shapes; s; s = s->next)
        if (s->n_columns == made->n_columns && memcmp(s->column, made->column, bytes) == 0) {
            free(made->match);
            free(made);
            return s;
        }
    made->next = all->shapes;
    all->bytes += sizeof *made + bytes;
    return all->shapes = made;
}

/* NULL if a column is neither a number nor a category, if its gaps have two weights, or if memory
 * is out. */
static tusk_shape *shape_of(tusk_layouts *all, const tusk_scorer *s, uint32_t n) {
    tusk_shape *made = new_shape(n);
    for (uint32_t i = 0; made && i < n; i++) {
        tusk_preparation_column c = tusk_preparation_at(s->preparation, i);
        bool text = tusk_reads_text(&c), indicated = c.indicator >= 0;
        tusk_reading reading = {{s->preparation.data + c.name, c.name_length}, c.part, text};
        shaped *to = made->column + i;
        to->part = c.part;
        to->text = text;
        to->category = c.becomes == TUSK_AS_CATEGORY;
        if (c.becomes > TUSK_AS_CATEGORY || indicated ||
            !(to->lexicon = tusk_lexicon_of(&all->lexica, reading))) {
            free(made->match);
            free(made);
            return NULL;
        }
    }
    return made ? known_shape(all, made) : NULL;
}

/* --- weights --- */

static double weight_of(const tusk_scorer *s, int64_t feature) {
    return feature >= 0 && (uint64_t)feature < s->n_coef ? s->coef[feature] : 0;
}

/* The weight of a gap; NaN for a gap that is rejected, so that the row is scored by the general
   method. */
static double gap_of(const tusk_scorer *s, const tusk_preparation_column *c, uint32_t missing) {
    return missing == TUSK_GAP_ERROR      ? NAN
           : c->becomes == TUSK_AS_NUMBER ? c->fill * weight_of(s, c->first)
           : c->missing >= 0              ? weight_of(s, c->missing)
           : missing == TUSK_GAP_LEVEL    ? weight_of(s, c->other)
                                          : weight_of(s, c->fill_feature);
}

/* Number of slots of a table of pairs. */
static uint32_t pairs_of(uint32_t levels) {
    uint32_t size = 4;
    while (size < levels + levels / 2)
        size *= 2;
    return size;
}

static void put_pair(double *pairs, uint32_t size, uint32_t level, double weight) {
    uint32_t at = place_of_pair(level, size);
    while (pairs[2 * at] != NO_PAIR && pairs[2 * at] != level)
        at = (at + 1) & (size - 1);
    pairs[2 * at] = level;
    pairs[2 * at + 1] = weight;
}

/* The numbers of a column's levels in its lexicon, adding new ones. */
static const uint32_t *levels_of(tusk_layouts *all, const tusk_scorer *s,
                                 const tusk_preparation_column *c, tusk_lexicon *lexicon) {
    tusk_text whole = s->preparation;
    if (c->text > whole.length)
        return NULL;
    tusk_level_texts levels = {.all = {whole.data + c->text, whole.length - c->text},
                               .ends = (const tusk_u32 *)(whole.data + c->ends),
                               .n = c->n_levels};
    return tusk_lexicon_numbers(&all->lexica, lexicon, levels);
}

static bool put_levels(tusk_layouts *all, const tusk_scorer *s, const tusk_preparation_column *c,
                       tusk_lexicon *lexicon, place to, double *weight) {
    uint32_t size = to.n == PAIRS ? (uint32_t)weight[0] : 0;
    const uint32_t *level = levels_of(all, s, c, lexicon);
    for (uint32_t k = 0; level && k < c->n_levels; k++) {
        bool none = c->reference && !k;
        double w = none ? 0 : weight_of(s, (int64_t)c->first + k - (c->reference ? 1 : 0));
        if (to.n == PAIRS)
            put_pair(weight + PAIRS_HEAD, size, level[k], w);
        else
            weight[level[k]] = w;
    }
    return level;
}

/* The weight of levels that the model does not know; NaN if they are rejected or make the answer
 * NULL. */
static double other_weight(const tusk_scorer *s, const tusk_preparation_column *c,
                           enum tusk_unseen unseen) {
    return unseen != TUSK_UNSEEN_OTHER && c->other < 0 ? NAN : weight_of(s, c->other);
}

/* Sets the place of the weights of a column of categories; returns their number of doubles. */
static uint64_t room_of(place *to, uint32_t levels, uint32_t known) {
    bool few = known <= (uint64_t)MORE_LEVELS * levels + FEW_LEVELS;
    to->n = few ? known : PAIRS;
    return few ? (uint64_t)known + 1 : PAIRS_HEAD + 2 * (uint64_t)pairs_of(levels);
}

/* False if memory is out. */
static bool put_column(tusk_layouts *all, const tusk_scorer *s, tusk_layout *l, uint32_t i,
                       enum tusk_unseen unseen) {
    tusk_preparation_column c = tusk_preparation_at(s->preparation, i);
    place to = l->column[i];
    double *weight = l->weight + to.at;
    if (!l->shape->column[i].category) {
        *weight = weight_of(s, c.first);
        return true;
    }
    double other = other_weight(s, &c, unseen);
    uint32_t size = to.n == PAIRS ? pairs_of(c.n_levels) : 0;
    for (uint32_t k = 0; to.n != PAIRS && k <= to.n; k++)
        weight[k] = other;
    for (uint32_t k = 0; k < size; k++)
        weight[PAIRS_HEAD + 2 * k] = NO_PAIR;
    if (size) {
        weight[0] = size;
        weight[1] = other;
    }
    return put_levels(all, s, &c, l->shape->column[i].lexicon, to, weight);
}

/* Sets the offsets of weights, from 0 on; returns their number. */
static uint64_t find_places(const tusk_scorer *s, const tusk_shape *shape, place *column) {
    uint64_t doubles = 0;
    for (int categories = 0; categories < 2; categories++) /* numbers are contiguous */
        for (uint32_t i = 0; i < shape->n_columns; i++) {
            tusk_preparation_column c = tusk_preparation_at(s->preparation, i);
            if (shape->column[i].category != categories)
                continue;
            column[i].at = (uint32_t)doubles;
            doubles +=
                categories ? room_of(column + i, c.n_levels, shape->column[i].lexicon->n) : 1;
        }
    return doubles;
}

/* Allocates a layout, with its places. */
static tusk_layout *new_layout(const tusk_scorer *s, tusk_shape *shape) {
    uint32_t n = shape->n_columns;
    tusk_layout *l;
    place *column = malloc((n + 1) * sizeof *column);
    if (!column)
        return NULL;
    size_t head = (sizeof *l + n * sizeof *column + 7) / 8 * 8;
    uint64_t doubles = find_places(s, shape, column);
    size_t bytes = head + (doubles + n + 1) * sizeof(double);
    if (doubles > UINT32_MAX || posix_memalign((void **)&l, 64, bytes)) {
        free(column);
        return NULL;
    }
    memcpy(l->column, column, n * sizeof *column);
    free(column);
    l->shape = shape;
    l->weight = (double *)((char *)l + head);
    l->gap = l->weight + doubles;
    l->bytes = bytes;
    return l;
}

tusk_layout *tusk_layout_new(tusk_layouts *all, const tusk_scorer *s) {
    tusk_preparation_head head;
    bool several = tusk_kind_of(s->task)->check || s->labels;
    if ((several && !s->cuts) || s->stored || s->null || !s->preparation.length)
        return NULL;
    memcpy(&head, s->preparation.data, sizeof head);
    tusk_shape *shape = shape_of(all, s, head.n_columns);
    for (uint32_t i = 0; shape && i < head.n_columns; i++) {
        tusk_preparation_column c = tusk_preparation_at(s->preparation, i);
        if (shape->column[i].category && !levels_of(all, s, &c, shape->column[i].lexicon))
            return NULL;
    }
    tusk_layout *l = shape ? new_layout(s, shape) : NULL;
    if (!l)
        return NULL;
    l->intercept = s->intercept;
    l->skips_gaps = head.missing == TUSK_GAP_SKIP;
    for (uint32_t i = 0; i < head.n_columns; i++) {
        tusk_preparation_column c = tusk_preparation_at(s->preparation, i);
        l->gap[i] = gap_of(s, &c, head.missing);
        if (!put_column(all, s, l, i, (enum tusk_unseen)head.unseen)) {
            free(l);
            return NULL;
        }
    }
    all->bytes += l->bytes;
    return l;
}

void tusk_layout_free(tusk_layouts *all, tusk_layout *l) {
    if (!l)
        return;
    all->bytes -= l->bytes;
    free(l);
}
