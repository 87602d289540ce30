/* Linear models of numbers and categories, laid out to score rows by name.
 *
 * What models of the same columns share is kept once: which columns these are, where the rows have
 * them, and the numbers of their levels (lexicon.h). A model itself is a few cache lines: its
 * weights, column after column.
 */
#ifndef TUSK_LAYOUT_H
#define TUSK_LAYOUT_H

#include "lexicon.h"

typedef struct tusk_layout tusk_layout;

/* What all layouts of one thread share. Zeros begin it. */
typedef struct tusk_layouts {
    tusk_lexica lexica;
    struct tusk_shape *shapes;
    size_t bytes; /* of layouts and shapes */
} tusk_layouts;

/* To be called when their layouts have been freed. */
void tusk_layouts_free(tusk_layouts *all);

/* Copies the weights of a model; NULL if it has other features than numbers and categories, more
 * than one margin, or if memory is out. */
tusk_layout *tusk_layout_new(tusk_layouts *all, const tusk_scorer *s);
void tusk_layout_free(tusk_layouts *all, tusk_layout *layout);

/* Finds the columns of rows with another schema than those before. False with a sentence if one is
 * missing. */
bool tusk_layout_match(tusk_layout *layout, tusk_named_rows *rows, const tusk_scorer *s,
                       char *sentence);

/* To be called some rows ahead: they ask for the memory that the next one reads, and for the
 * memory that scoring the row will read. */
void tusk_layout_expect_places(const tusk_layout *layout);
void tusk_layout_expect(const tusk_layout *layout, const tusk_named_rows *rows, uint64_t row);

/* To be called before a row is read: asks for the weights of numbers, too. */
void tusk_layout_approach(const tusk_layout *layout);

/* The margin of a row; *null: it has a NULL that the model does not fill. False if the row has to
 * be scored as any other model scores it: it is refused, or its margin is no number. */
bool tusk_layout_margin(const tusk_layout *layout, const tusk_named_rows *rows, uint64_t row,
                        double *margin, bool *null);
/* The same in two steps, of which the first one serves all layouts of the same columns: it looks
 * up the levels of the row, and asks for the memory of what they weigh. */
void tusk_layout_levels(const tusk_layout *layout, const tusk_named_rows *rows, uint64_t row);
bool tusk_layout_sum(const tusk_layout *layout, const tusk_named_rows *rows, uint64_t row,
                     double *margin, bool *null);
/* As tusk_layout_margin of rows that follow each other and have no NULL; NaN where the row has to
 * be scored otherwise. False if all have. */
bool tusk_layout_margins(const tusk_layout *layout, const tusk_named_rows *rows, uint64_t row,
                         uint64_t n, double *margins);

#endif
