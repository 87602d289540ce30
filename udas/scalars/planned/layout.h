/* Linear models of numbers and categories, laid out to score rows by name. Data common to
 * models of the same columns are stored once: the columns, their positions in the rows, and the
 * numbers of their levels (lexicon.h). A model itself is a few cache lines: its weights, column
 * after column. */
#ifndef TUSK_LAYOUT_H
#define TUSK_LAYOUT_H

#include "lexicon.h"

typedef struct tusk_layout tusk_layout;

/* State shared by all layouts of one thread. Initialise it with zeros. */
typedef struct tusk_layouts {
    tusk_lexica lexica;
    struct tusk_shape *shapes;
    size_t bytes; /* of layouts and shapes */
} tusk_layouts;

/* Call it after their layouts have been freed. */
void tusk_layouts_free(tusk_layouts *all);

/* Copies the weights of a model; NULL if it has other features than numbers and categories, more
 * than one margin, or if memory is out. */
tusk_layout *tusk_layout_new(tusk_layouts *all, const tusk_scorer *s);
void tusk_layout_free(tusk_layouts *all, tusk_layout *layout);

/* Finds the columns of rows with another schema than the previous ones. False with a sentence
 * if one is missing. */
bool tusk_layout_match(tusk_layout *layout, tusk_named_rows *rows, const tusk_scorer *s,
                       char *sentence);

/* To be called some rows ahead: prefetch the memory that the next one reads, and the memory
 * that scoring the row reads. */
void tusk_layout_expect_places(const tusk_layout *layout);
void tusk_layout_expect(const tusk_layout *layout, const tusk_named_rows *rows, uint64_t row);

/* To be called before a row is read: also prefetches the weights of numbers. */
void tusk_layout_approach(const tusk_layout *layout);

/* The margin of a row; *null: it has a NULL that the model does not fill. False if the row has
 * to be scored by the general method: it is invalid, or its margin is NaN. */
bool tusk_layout_margin(const tusk_layout *layout, const tusk_named_rows *rows, uint64_t row,
                        double *margin, bool *null);
/* The same in two steps, of which the first one serves all layouts of the same columns: it
 * looks up the levels of the row, and prefetches their weights. */
void tusk_layout_levels(const tusk_layout *layout, const tusk_named_rows *rows, uint64_t row);
bool tusk_layout_sum(const tusk_layout *layout, const tusk_named_rows *rows, uint64_t row,
                     double *margin, bool *null);
/* Like tusk_layout_margin for consecutive rows without NULLs; NaN for rows that need the
 * general method. False if all do. */
bool tusk_layout_margins(const tusk_layout *layout, const tusk_named_rows *rows, uint64_t row,
                         uint64_t n, double *margins);

#endif
