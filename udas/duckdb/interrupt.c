/* Ctrl-C and tuskml.cancel() while rows are packed.
 *
 * A state is born under the number of cancels so far; once it has risen, the rows go nowhere.
 * While any rows are packed, SIGINT counts as a cancel: DuckDB itself can leave a scan on one
 * thread to run to its end.
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

TUSK_EXPORT void tusk_set_interrupts(cancel_counter count, sigint_watcher watch) {
    atomic_store(&watcher, watch);
    atomic_store(&counter, count);
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
    if (atomic_exchange(&watching, on) != on)
        f(on);
    pthread_mutex_unlock(&lock);
}

void packing_goes_on(void) {
    watch(true);
}

void packing_ends(void) {
    watch(false);
}
