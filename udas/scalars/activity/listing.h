#ifndef TUSK_ACTIVITY_LISTING_H
#define TUSK_ACTIVITY_LISTING_H

#include "table.h"

/* Lists the trainings of a table, like tusk_activity. */
int32_t tusk_list_running(tusk_table *table, tusk_running *out);

#endif
