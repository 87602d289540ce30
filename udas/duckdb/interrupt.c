/* Ctrl-C and tuskml.cancel() while rows are packed.
 *
 * An era of rows is born under the number of cancels so far; once it has risen, its rows go
 * nowhere, nor do those of new groups while the packing goes on that the cancel met. While any
 * rows are packed, SIGINT counts as a cancel: DuckDB itself can leave a scan on one thread to run
 * to its end.
 */
#include "interrupt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "door.h"

static _Atomic(cancel_counter) counter;
static _Atomic(sigint_watcher) watcher;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool watching;
static _Atomic int64_t mark; /* cancels when the packing began */

TUSK_EXPORT void tusk_set_interrupts(cancel_counter count, sigint_watcher watch) {
    atomic_store(&watcher, watch);
    atomic_store(&counter, count);
}

/* What the trainer compares the cancels with: one that came since the packing began is meant for
 * it, even where it came before Python had heard of the batch. */
TUSK_EXPORT int64_t tusk_batch_born(const tusk_batch *batch) {
    return ((const answer *)batch->door)->born;
}

/* Of which database it is. */
TUSK_EXPORT int64_t tusk_batch_account(const tusk_batch *batch) {
    return (int64_t)(intptr_t)((const answer *)batch->door)->door;
}

int64_t cancels_so_far(void) {
    cancel_counter count = atomic_load_explicit(&counter, memory_order_acquire);
    return count ? count() : 0;
}

static void watch(bool on) {
    sigint_watcher f = atomic_load(&watcher);
    if (!f || atomic_load_explicit(&watching, memory_order_relaxed) == on)
        return;
    pthread_mutex_lock(&lock);
    if (watching != on) {
        f(on);
        if (on)
            atomic_store(&mark, cancels_so_far());
        atomic_store(&watching, on);
    }
    pthread_mutex_unlock(&lock);
}

bool packing_goes_on(void) {
    watch(true);
    if (!atomic_load_explicit(&watching, memory_order_acquire) || cancels_so_far() == mark)
        return true;
    watch(false);
    return false;
}

void packing_ends(void) {
    watch(false);
}
