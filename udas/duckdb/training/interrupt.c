/* Ctrl-C and tuskml.cancel() while rows are packed. An era records the number of cancels at its
 * start. Once that number has risen, its rows are dropped. So are the rows of new groups, until
 * the packing that was cancelled ends. While any rows are packed, SIGINT counts as a cancel,
 * because DuckDB itself may let a scan on one thread run to its end. */
#include "interrupt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../../rowblock/fork_safe.h"
#include "../database.h"

static _Atomic(cancel_counter) counter;
static _Atomic(sigint_watcher) watcher;
static _Atomic(canceller) cancel;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool watching;
static _Atomic int64_t mark; /* the cancel count when the packing began */

TUSK_FORK_SAFE(hold_in_forks, lock)

/* The watcher takes a mutex of its own inside ours. Its library has registered that one by now. */
TUSK_EXPORT void tusk_set_interrupts(cancel_counter count, sigint_watcher watch, canceller end) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hold_in_forks);
    atomic_store(&cancel, end);
    atomic_store(&watcher, watch);
    atomic_store(&counter, count);
}

/* The number that the trainer compares the cancel count with. A cancel that came after the
 * packing began is meant for this batch, even if it came before Python knew of the batch. */
TUSK_EXPORT int64_t tusk_batch_born(const tusk_batch *batch) {
    return ((const answer *)batch->context)->born;
}

/* The account of the batch's database. */
TUSK_EXPORT int64_t tusk_batch_account(const tusk_batch *batch) {
    return (int64_t)(intptr_t)((const answer *)batch->context)->database;
}

int64_t cancels_so_far(void) {
    cancel_counter count = atomic_load_explicit(&counter, memory_order_acquire);
    return count ? count() : 0;
}

void cancel_trainings(void) {
    canceller end = atomic_load_explicit(&cancel, memory_order_acquire);
    if (end)
        end();
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

sigint_watcher answering_begins(void) {
    sigint_watcher f = atomic_load(&watcher);
    if (f)
        f(1);
    return f;
}

void answering_ends(sigint_watcher watcher) {
    if (watcher)
        watcher(0);
}
