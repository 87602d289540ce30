#include "pool.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <new>

#include <pthread.h>

#include "api.h"

namespace tusk {
namespace {

// The pool that Python set. Without one the calling thread does all the work.
std::atomic<const tusk_pool *> pool{nullptr};

bool on_worker() {
    const tusk_pool *now = pool.load(std::memory_order_acquire);
    return now && now->on_worker();
}

std::atomic<int64_t> cancels{0};
static_assert(std::atomic<int64_t>::is_always_lock_free,
              "tk_cancel is called from signal handlers");

// The host's function that reports an interrupt. It is called on the host's thread, never on a
// worker.
std::atomic<int (*)()> host_interrupted{nullptr};

std::mutex watch_mutex;
int watchers = 0;
struct sigaction before_watch;

// Takes the mutex during a fork. If another thread held it, the child, which does not have that
// thread, would wait forever.
struct ForkSafe {
    ForkSafe() {
        pthread_atfork([] { watch_mutex.lock(); }, [] { watch_mutex.unlock(); },
                       [] { watch_mutex.unlock(); });
    }
} fork_safe;

void on_sigint(int signal, siginfo_t *info, void *context) {
    cancels.fetch_add(1);
    if (before_watch.sa_flags & SA_SIGINFO) {
        before_watch.sa_sigaction(signal, info, context);
    } else if (before_watch.sa_handler != SIG_DFL && before_watch.sa_handler != SIG_IGN) {
        before_watch.sa_handler(signal);
    }
}

} // namespace

void parallel_for(int64_t n, int threads, Ref<void(int64_t)> body) {
    const tusk_task task = [](void *context, int64_t number) {
        return code_of([&] {
            (*static_cast<Ref<void(int64_t)> *>(context))(number);
            return (int)TK_OK;
        });
    };
    const tusk_pool *now = pool.load(std::memory_order_acquire);
    int failed = TK_OK;
    if (now)
        failed = now->run(n, threads, task, &body);
    else
        for (int64_t i = 0; i < n && failed == TK_OK; i++)
            failed = task(&body, i);
    if (failed)
        throw std::bad_alloc();
}

bool past(double deadline) {
    using namespace std::chrono;
    return deadline > 0 &&
           duration<double>(steady_clock::now().time_since_epoch()).count() >= deadline;
}

int64_t cancel_count() {
    auto interrupted = host_interrupted.load(std::memory_order_relaxed);
    if (interrupted && !on_worker() && interrupted())
        cancels.fetch_add(1, std::memory_order_relaxed);
    return cancels.load(std::memory_order_relaxed);
}

} // namespace tusk

extern "C" {

void tk_use_pool(const tusk_pool *functions) {
    tusk::pool.store(functions, std::memory_order_release);
}

void tk_cancel(void) {
    tusk::cancels.fetch_add(1);
}

int64_t tk_cancel_count(void) {
    return tusk::cancel_count();
}

void tk_watch_sigint(int on) {
    std::lock_guard lock(tusk::watch_mutex);
    if (tusk::host_interrupted)
        return;
    if (on && tusk::watchers++ == 0) {
        sigaction(SIGINT, nullptr, &tusk::before_watch);
        if (!(tusk::before_watch.sa_flags & SA_SIGINFO) &&
            tusk::before_watch.sa_handler == SIG_DFL)
            return;
        struct sigaction watch{};
        watch.sa_sigaction = tusk::on_sigint;
        watch.sa_flags = SA_SIGINFO | SA_RESTART;
        sigaction(SIGINT, &watch, nullptr);
    } else if (!on && --tusk::watchers == 0) {
        struct sigaction now{}; // the host may have installed another handler since
        sigaction(SIGINT, nullptr, &now);
        if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == tusk::on_sigint)
            sigaction(SIGINT, &tusk::before_watch, nullptr);
    }
}

void tk_watch_host(int (*interrupted)(void)) {
    tusk::host_interrupted = interrupted;
}

int tk_version(void) {
    return 1;
}
}
