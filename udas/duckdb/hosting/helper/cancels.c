#include "helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "../../../rowblock/fork_safe.h"

static _Atomic int64_t cancels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int watchers;
static struct sigaction before;

TUSK_FORK_SAFE(hold_in_forks, lock)

void own_cancels_begin(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hold_in_forks);
}

int64_t own_cancel_count(void) {
    return atomic_load(&cancels);
}

void own_cancel(void) {
    atomic_fetch_add(&cancels, 1);
}

static void on_sigint(int number, siginfo_t *info, void *context) {
    atomic_fetch_add(&cancels, 1);
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
}

/* A client without a handler ends by the signal, as it always does. */
static void begin_watch(void) {
    sigaction(SIGINT, NULL, &before);
    if (!(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_DFL)
        return;
    struct sigaction watch = {.sa_sigaction = on_sigint, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGINT, &watch, NULL);
}

static void end_watch(void) {
    struct sigaction now; /* the client may have set another handler since */
    sigaction(SIGINT, NULL, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_sigint)
        sigaction(SIGINT, &before, NULL);
}

void own_watch_sigint(int on) {
    pthread_mutex_lock(&lock);
    if (on && watchers++ == 0)
        begin_watch();
    else if (!on && --watchers == 0)
        end_watch();
    pthread_mutex_unlock(&lock);
}
