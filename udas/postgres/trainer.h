/* From blocks to models: the call of the trainer in Python. */
#ifndef TUSK_POSTGRES_TRAINER_H
#define TUSK_POSTGRES_TRAINER_H

#include "groups.h"

/* Trains, or explains, s and others of its list that wait; sets their results. fcinfo is of the
 * final function. */
void train_groups(FunctionCallInfo fcinfo, train_state *s, enum tusk_request request);

#endif
