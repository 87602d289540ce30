/* What a prediction needs to know about the stores. */
#ifndef TUSK_POSTGRES_STORES_H
#define TUSK_POSTGRES_STORES_H

#include "backend.h"

#include "../scalars/models/score.h"

/* As the settings are now. */
tusk_stores backend_stores(void);

#endif
