/* Ctrl-C and tuskml.cancel() while rows are packed. */
#ifndef TUSK_INTERRUPT_H
#define TUSK_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

/* The kernels' tk_cancel_count and tk_watch_sigint, which the Python package hands over. */
typedef int64_t (*cancel_counter)(void);
typedef void (*sigint_watcher)(int on);

int64_t cancels_so_far(void);
/* Around what takes rows in: the first lasts until the second, whoever calls them and how often.
 */
/* False: a cancel came since it began. */
bool packing_goes_on(void);
void packing_ends(void);

#endif
