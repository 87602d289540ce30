#include "pool.hpp"

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

#include <pthread.h>

#include "api.h"

namespace tusk {
namespace {

thread_local bool on_worker = false;

// One parallel_for: threads draw tasks until none is left.
struct Job {
    const std::function<void(int64_t)> *body;
    int64_t n;
    std::atomic<int64_t> next{0};
    int helpers_wanted;
    int helpers_inside = 0; // guarded by the pool's mutex
    std::atomic<bool> failed{false};

    // No exception leaves a worker's thread, which would end the program.
    void work() noexcept {
        try {
            for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n;)
                (*body)(task);
        } catch (...) {
            failed = true;
            next = n;
        }
    }
};

class Pool {
public:
    void run(Job &job) {
        {
            std::lock_guard lock(mutex_);
            grow(job.helpers_wanted);
            jobs_.push_back(&job);
        }
        for (int helper = 0; helper < job.helpers_wanted; helper++)
            wake_.notify_one(); // not all: another caller may have asked for a thousand
        job.work();
        std::unique_lock lock(mutex_);
        std::erase(jobs_, &job);
        idle_.wait(lock, [&] { return job.helpers_inside == 0; });
    }

private:
    // A worker must never take a signal that the host program handles on its main thread. Where
    // the system has no room for another thread, those that there are do the work.
    void grow(int wanted) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        try {
            for (; workers_ < wanted; workers_++)
                std::thread([this] { serve(); }).detach();
        } catch (const std::exception &) {
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

    Job *open_job() {
        for (Job *job : jobs_)
            if (job->helpers_inside < job->helpers_wanted &&
                job->next.load(std::memory_order_relaxed) < job->n)
                return job;
        return nullptr;
    }

    void serve() {
        on_worker = true;
        std::unique_lock lock(mutex_);
        for (;;) {
            Job *job = nullptr;
            wake_.wait(lock, [&] { return (job = open_job()) != nullptr; });
            job->helpers_inside++;
            lock.unlock();
            job->work();
            lock.lock();
            if (--job->helpers_inside == 0)
                idle_.notify_all();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, idle_;
    std::deque<Job *> jobs_;
    int workers_ = 0;
};

// Never destroyed: workers may outlive main. After a fork the child starts its own.
Pool *pool_of_process = nullptr;
std::once_flag pool_once;

void forget_pool() {
    pool_of_process = new Pool;
}

Pool &pool() {
    std::call_once(pool_once, [] {
        pool_of_process = new Pool;
        pthread_atfork(nullptr, nullptr, forget_pool);
    });
    return *pool_of_process;
}

std::atomic<int64_t> cancels{0};
static_assert(std::atomic<int64_t>::is_always_lock_free,
              "tk_cancel is called from signal handlers");

// The host program's own way to say that work must end; asked on its thread, never on a worker.
std::atomic<int (*)()> host_interrupted{nullptr};

std::mutex watch_mutex;
int watchers = 0;
struct sigaction before_watch;

// Nobody holds it across a fork, or the child would wait for a thread that it does not have.
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

void parallel_for(int64_t n, int threads, const std::function<void(int64_t)> &body) {
    Job job;
    job.body = &body;
    job.n = n;
    job.helpers_wanted = (int)std::min<int64_t>(threads, n) - 1;
    if (job.helpers_wanted <= 0)
        job.work();
    else
        pool().run(job);
    if (job.failed)
        throw std::bad_alloc();
}

int64_t cancel_count() {
    auto interrupted = host_interrupted.load(std::memory_order_relaxed);
    if (interrupted && !on_worker && interrupted())
        cancels.fetch_add(1, std::memory_order_relaxed);
    return cancels.load(std::memory_order_relaxed);
}

} // namespace tusk

extern "C" {

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
        struct sigaction now{}; // the host may have put another in our place
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
