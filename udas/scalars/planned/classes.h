/* The probabilities of all classes of a row by name, by one layout for each margin.
 *
 * Layouts of one model have the same columns, so these are matched with the rows only once.
 */
#ifndef TUSK_CLASSES_H
#define TUSK_CLASSES_H

#include "layout.h"

typedef struct tusk_class_layouts tusk_class_layouts;

/* For the lists of a model, or for its only margin. NULL if lists are not probabilities, if it
 * has no layout, or if memory is out. */
tusk_class_layouts *tusk_class_layouts_new(tusk_layouts *all, const tusk_scorer *s, bool lists);
void tusk_class_layouts_free(tusk_layouts *all, tusk_class_layouts *classes);

/* See tusk_layout_match and tusk_layout_expect. */
bool tusk_class_layouts_match(tusk_class_layouts *classes, tusk_named_rows *rows,
                              const tusk_scorer *s, char *sentence);
void tusk_class_layouts_expect(const tusk_class_layouts *classes, const tusk_named_rows *rows,
                               uint64_t row);

/* The layout of the first class, or the only one. */
const tusk_layout *tusk_class_layouts_first(const tusk_class_layouts *classes);

/* The margin of a row for a single margin, like tusk_layout_margin. */
bool tusk_class_layouts_margin(const tusk_class_layouts *classes, const tusk_named_rows *rows,
                               uint64_t row, double *margin, bool *null);
/* The list_size probabilities of a row; *null and the result as for tusk_layout_margin. */
bool tusk_class_layouts_list(const tusk_class_layouts *classes, const tusk_named_rows *rows,
                             const tusk_scorer *s, uint64_t row, double *out, bool *null);

#endif
