/* Plans of models that are joined with rows: checked once and laid out for many rows. Rows that
 * are joined with many models have another model each time, and checking a payload costs more
 * than scoring a row. So recurring models are kept: a copy of the payload, so that nothing in
 * it can change, for linear models of rows with names a layout (layout.h), and for trees of
 * rows without names their packed form. */
#ifndef TUSK_PLAN_H
#define TUSK_PLAN_H

#include "classes.h"

typedef struct tusk_plan tusk_plan;
/* The plans that one thread uses at a time. */
typedef struct tusk_plans tusk_plans;

/* NULL if memory is out. */
tusk_plans *tusk_plans_new(void);
void tusk_plans_free(tusk_plans *plans);
/* To be called before the rows of a chunk: drops models that no longer occur. */
void tusk_plans_begin(tusk_plans *plans, tusk_named_rows *rows);

/* The plan of a payload; NULL if it occurs for the first time and with few rows, if there is no
 * room for another one, or if it is invalid. A payload is identified by its length and its
 * head, which has its CRC, and by its address or else all its bytes. */
tusk_plan *tusk_plan_of(tusk_plans *plans, tusk_text payload, const tusk_stores *stores,
                        enum tusk_answer answer, uint64_t rows);
tusk_scorer *tusk_plan_scorer(tusk_plan *plan);

/* To be called some rows ahead, in this order: prefetch the memory of the lookup, of the plan,
 * and of the data to score a row. */
void tusk_plans_expect(const tusk_plans *plans, tusk_text payload, enum tusk_answer answer);
void tusk_plan_expect_layout(const tusk_plan *plan);
void tusk_plan_expect(const tusk_plan *plan, const tusk_named_rows *rows, uint64_t row);

/* To be called a model ahead: prefetches its trees. */
void tusk_plan_touch(const tusk_plan *plan);
/* The margins of dense rows without names, like tusk_margins. */
bool tusk_plan_dense(tusk_plan *plan, const void *x, bool f64, uint64_t d, uint64_t n, double *out,
                     char *sentence);

/* The margin of a row; *null: it has a NULL that the model does not fill. False with a sentence
 * if the row is invalid. The scorer is not null. */
bool tusk_plan_margin(tusk_plan *plan, tusk_named_rows *rows, uint64_t row, double *margin,
                      bool *null, char *sentence);
/* The same for consecutive rows, NaN for rows to be scored alone. False if all are. */
bool tusk_plan_margins(tusk_plan *plan, tusk_named_rows *rows, uint64_t row, uint64_t n,
                       double *margins);
/* The list_size numbers of a row, for a result that is a list; otherwise like tusk_plan_margin. */
bool tusk_plan_list(tusk_plan *plan, tusk_named_rows *rows, uint64_t row, double *out, bool *null,
                    char *sentence);
/* Whether margins of both are converted to results alike. */
bool tusk_plans_alike(const tusk_plan *one, const tusk_plan *other);

#endif
