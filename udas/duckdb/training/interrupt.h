/* Ctrl-C and tuskml.cancel() while rows are packed. */
#ifndef TUSK_INTERRUPT_H
#define TUSK_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#include "../database.h"

/* The kernels' tk_cancel_count, tk_watch_sigint and tk_cancel. The Python package passes them in.
 */
typedef int64_t (*cancel_counter)(void);
typedef void (*sigint_watcher)(int on);
typedef void (*canceller)(void);
TUSK_EXPORT void tusk_set_interrupts(cancel_counter count, sigint_watcher watch, canceller end);

/* The cancel count when the packing of a batch's rows began; -1: unknown. */
TUSK_EXPORT int64_t tusk_batch_born(const tusk_batch *batch);

int64_t cancels_so_far(void);
/* Ends all trainings of the process, as tuskml.cancel() does. */
void cancel_trainings(void);
/* Called around code that packs rows. Packing lasts from the first call to the second,
 * whichever thread makes them and however often. */
/* False if a cancel came since packing began. */
bool packing_goes_on(void);
void packing_ends(void);

/* While rows are trained on, SIGINT counts as a cancel too, whichever thread gets it: Python's
 * own handler runs on the main thread only, which may wait for this one. Begins before the
 * packing ends. The second function gets the result of the first one. */
sigint_watcher answering_begins(void);
void answering_ends(sigint_watcher watcher);

#endif
