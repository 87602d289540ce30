/* Stores for predictions. */
#ifndef TUSK_POSTGRES_STORES_H
#define TUSK_POSTGRES_STORES_H

#include "backend.h"

#include "../scalars/models/score.h"

/* Stores by the current settings. */
tusk_stores backend_stores(void);

#endif
