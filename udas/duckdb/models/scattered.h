/* Rows of a chunk with models in random order, as after a join: they are scored model by model,
 * so that each model is looked up and checked once. */
#ifndef TUSK_SCATTERED_H
#define TUSK_SCATTERED_H

#include "predict.h"

#define SCATTERED_ROWS 2048 /* of a chunk, at most */

/* The rows of model m are row[begin[m]] .. row[begin[m + 1] - 1], rising. */
typedef struct model_order {
    uint16_t n_models;
    uint16_t row[SCATTERED_ROWS], begin[SCATTERED_ROWS + 1];
} model_order;

/* False if most consecutive rows share a model, or if the rows are not dense rows of one length
 * without NULLs. The call has a payload for each row. */
bool order_by_model(const call *c, model_order *order);

/* Scores all rows, the models one after another. */
bool score_models(call *c, const model_order *order);

#endif
