/* Mutexes of a whole process, held during a fork.
 *
 * If another thread held one, the child, which does not have that thread, would wait forever.
 */
#ifndef TUSK_FORK_SAFE_H
#define TUSK_FORK_SAFE_H

#include <pthread.h>

/* Defines NAME(), to be called once: from then on forks wait for the mutex. A mutex that is
 * taken inside another one has to be registered first, because a fork takes the latest first. */
#define TUSK_FORK_SAFE(NAME, MUTEX)                            \
    static void NAME##_take(void) {                            \
        pthread_mutex_lock(&(MUTEX));                          \
    }                                                          \
    static void NAME##_give(void) {                            \
        pthread_mutex_unlock(&(MUTEX));                        \
    }                                                          \
    static void NAME(void) {                                   \
        pthread_atfork(NAME##_take, NAME##_give, NAME##_give); \
    }

#endif
