#ifndef TUSK_ACTIVITY_LISTING_H
#define TUSK_ACTIVITY_LISTING_H

#include "table.h"

/* The trainings of a table, as tusk_activity lists them. */
int32_t tusk_list_running(tusk_table *table, tusk_running *out);

#endif
