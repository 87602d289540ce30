/* Rows of a chunk whose models come in no order, as a join brings them: they are scored model by
 * model, so that each model is looked up and checked once. */
#ifndef TUSK_SCATTERED_H
#define TUSK_SCATTERED_H

#include "predict.h"

#define SCATTERED_ROWS 2048 /* of a chunk, at most */

/* The rows of model m are row[begin[m]] up to, but without, row[begin[m + 1]], rising. */
typedef struct model_order {
    uint16_t n_models;
    uint16_t row[SCATTERED_ROWS], begin[SCATTERED_ROWS + 1];
} model_order;

/* False if rows of one model mostly follow each other, or if the rows are no dense ones of one
 * length without NULLs. The call has a payload for each row. */
bool order_by_model(const call *c, model_order *order);

/* Scores all rows, the models one after another. */
bool score_models(call *c, const model_order *order);

#endif
