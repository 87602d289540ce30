#include "pool.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>

#include <pthread.h>

#include "training_state.hpp"

namespace {

thread_local bool on_worker = false;

// One call of run(). Its threads take tasks until none is left. The share of the calling training
// may change meanwhile: between two tasks helpers leave, and others join.
struct Job {
    tusk_task task;
    void *context;
    int64_t n;
    tusk::Training *training;
    std::atomic<int64_t> next{0};
    int helpers_wanted;
    int helpers_inside = 0; // guarded by the pool's mutex
    std::atomic<bool> failed{false};

    int helpers_allowed() const {
        return std::min(helpers_wanted, tusk::threads_of(training, threads) - 1);
    }

    bool open() const { return next.load(std::memory_order_relaxed) < n; }

    // Takes a task, if there is one.
    bool work() {
        const int64_t number = next.fetch_add(1, std::memory_order_relaxed);
        if (number >= n)
            return false;
        if (task(context, number)) {
            failed = true;
            next = n;
        }
        return true;
    }

    int threads; // number that the caller requested
};

class Pool {
public:
    void run(Job &job) {
        {
            std::lock_guard lock(mutex_);
            grow(job.helpers_wanted);
            jobs_.push_back(&job);
        }
        int called = 0;
        do {
            const int allowed = job.helpers_allowed();
            for (; called < allowed; called++)
                wake_.notify_one(); // not all: another call may have started a thousand workers
            called = allowed;
        } while (job.work());
        std::unique_lock lock(mutex_);
        std::erase(jobs_, &job);
        idle_.wait(lock, [&] { return job.helpers_inside == 0; });
    }

private:
    // Starts workers until there are `wanted`. They block all signals, which the host program
    // handles on its main thread. If the system refuses another thread, the existing ones do the
    // work.
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
            if (job->open() && job->helpers_inside < job->helpers_allowed())
                return job;
        return nullptr;
    }

    void serve() {
        on_worker = true;
        std::unique_lock lock(mutex_);
        for (;;) {
            Job *job = nullptr;
            wake_.wait(lock, [&] { return (job = open_job()) != nullptr; });
            const int place = job->helpers_inside++;
            lock.unlock();
            while (place < job->helpers_allowed() && job->work())
                ;
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

// Never destroyed, because workers may outlive main. After a fork, the child has its own pool.
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

int run(int64_t n, int32_t threads, tusk_task task, void *context) {
    Job job;
    job.task = task;
    job.context = context;
    job.n = n;
    job.threads = threads;
    job.training = on_worker ? nullptr : tusk::training_of_thread();
    job.helpers_wanted = (int)std::min<int64_t>(threads, n) - 1;
    if (job.helpers_wanted <= 0) {
        do
            tusk::threads_of(job.training, 1); // enters the table
        while (job.work());
    } else {
        pool().run(job);
    }
    return job.failed;
}

int is_worker() {
    return on_worker;
}

} // namespace

const tusk_pool *ts_pool(void) {
    static const tusk_pool functions = {run, is_worker};
    return &functions;
}
