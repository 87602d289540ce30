/* What a prediction must know of the stores. */
#ifndef TUSK_POSTGRES_STORES_H
#define TUSK_POSTGRES_STORES_H

#include "door.h"

#include "../scalars/score.h"

/* As the settings are now. */
tusk_stores backend_stores(void);

#endif
