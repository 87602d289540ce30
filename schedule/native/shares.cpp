
#include <cerrno>
#include <mutex>
#include <new>
#include <pthread.h>
#include <string>
#include <unistd.h>

#include "progress.h"
#include "shares.h"
#include "training_state.hpp"

// Progress of one computation of a training.

namespace tusk {

class Work {
public:
    Work(Training &training, int64_t units, int64_t groups)
        : training_(training), units_(std::max<int64_t>(units, 1)), groups_(groups),
          next_(tusk_table_now() + EVERY) {}

    void done(int64_t units, int64_t rows) {
        rows_.fetch_add(rows, std::memory_order_relaxed);
        const int64_t now = done_.fetch_add(units, std::memory_order_relaxed) + units;
        const double time = tusk_table_now();
        if (time < next_.load(std::memory_order_relaxed))
            return;
        std::unique_lock lock(telling_, std::try_to_lock);
        if (!lock)
            return;
        next_ = time + EVERY;
        training_.threads(1); // enters the table, though it does not use the pool
        training_.note_step((double)now / (double)units_, groups_, rows_.exchange(0));
    }

    ~Work() { training_.note_step(NAN, groups_, rows_.exchange(0)); }

private:
    static constexpr double EVERY = 0.02; // least seconds between two reports

    Training &training_;
    int64_t units_, groups_;
    std::atomic<int64_t> done_{0}, rows_{0};
    std::atomic<double> next_;
    std::mutex telling_;
};

namespace {

// Table for trainings that begin; null: they have no slots. A table stays mapped, as earlier
// trainings still have slots in it.
tusk_table *current = nullptr;
std::string current_setting;
std::mutex mutex; // guards the variables above

thread_local Training own;
// Another thread's training that the calling thread has joined, and the value of `forks` then.
thread_local Training *joined = nullptr;
thread_local int joined_forks = 0;
std::atomic<int> forks{0};

// A child starts without a training; slots that it inherits belong to its parent.
void in_child() {
    forks++;
    new (&mutex) std::mutex;
    Training::process_changed();
}

tusk_table *current_table() {
    std::lock_guard lock(mutex);
    return current;
}

Training *own_training() {
    return own.depth && own.forks == forks.load(std::memory_order_relaxed) ? &own : nullptr;
}

} // namespace

Training *training_of_thread() {
    if (joined && joined_forks == forks.load(std::memory_order_relaxed))
        return joined;
    return own_training();
}

thread_local bool in_shared_task = false;

namespace {

thread_local int computations = 0; // of the calling thread, one within another

} // namespace

Computation::Computation(Training *training, int wanted)
    : training_(in_shared_task ? nullptr : training), is_outermost_(training_ && !computations) {
    if (training_)
        computations++;
    if (is_outermost_)
        training_->begin_computing(wanted);
}

Computation::~Computation() {
    if (training_)
        computations--;
    if (is_outermost_)
        training_->end_computing();
}

void Computation::wait_for_turn() {
    if (training_)
        training_->wait_for_turn();
}

int threads_of(Training *training, int wanted) {
    return training ? std::max(1, training->threads(wanted)) : wanted;
}

} // namespace tusk

using namespace tusk;

int ts_shares_open(void) {
    const char *setting = tusk_table_setting();
    std::lock_guard lock(tusk::mutex);
    if (!setting)
        current = nullptr;
    if (!setting || (current && current_setting == setting))
        return setting ? 0 : ECANCELED;
    static std::once_flag once;
    std::call_once(once, [] {
        pthread_atfork(nullptr, nullptr, in_child);
        Training::process_changed();
    });
    current = nullptr;
    const int problem = tusk_table_open(setting, 1, &current);
    if (!problem)
        current_setting = setting;
    return problem;
}

void ts_training_begin(const ts_beginning *given) {
    if (own.forks != forks.load()) { // inherited from the parent process
        own.depth = 0;
        own.inherited();
        own.forks = forks.load();
    }
    if (!own.depth++)
        own.begin(*given, given->takes_part ? current_table() : nullptr);
}

void ts_training_end(void) {
    if (own.depth && --own.depth == 0)
        own.leave();
}

void ts_training_replay(int32_t n, const double *seconds, const int32_t *threads) {
    if (Training *mine = own_training())
        mine->replay(n, seconds, threads);
}

void *ts_training_split(int32_t parts) {
    Training *mine = own_training();
    if (mine)
        mine->parts = std::max(parts, 1);
    return mine;
}

void ts_training_join(void *training) {
    joined = (Training *)training;
    joined_forks = forks.load();
}

void ts_training_plan(const char *plan, double seconds) {
    if (Training *training = training_of_thread())
        training->note_plan(plan, seconds);
}

void ts_training_progress(int64_t groups) {
    if (Training *mine = own_training())
        mine->note_models(groups);
}

void ts_training_step(double part, int64_t of_groups, int64_t rows) {
    if (Training *mine = own_training())
        mine->note_step(part, of_groups, rows);
}

int32_t ts_training_share(int32_t wanted) {
    Training *mine = training_of_thread();
    return mine ? mine->mean_threads(wanted) : wanted;
}

void ts_training_deadline(double at) {
    if (Training *mine = own_training())
        mine->deadline = at;
}

void ts_watch_cancels(void *count) {
    Training::cancels = reinterpret_cast<int64_t (*)()>(count);
}

double ts_training_age(void) {
    Training *mine = own_training();
    return mine ? tusk_table_now() - mine->began : 0;
}

int32_t ts_device_ask(int32_t device) {
    Training *mine = own_training();
    return mine && mine->ask_device(device);
}

int32_t ts_device_take(void) {
    Training *mine = own_training();
    return !mine || mine->take_device();
}

int32_t ts_device_wanted(void) {
    Training *mine = own_training();
    return mine && mine->device_is_wanted();
}

void ts_device_leave(void) {
    if (Training *mine = own_training())
        mine->leave_device();
}

const tusk_progress *ts_progress(void) {
    static const tusk_progress functions = {
        [](int64_t units, int64_t groups) -> void * {
            Training *mine = own_training();
            return mine ? new (std::nothrow) Work(*mine, units, groups) : nullptr;
        },
        [](void *work, int64_t units, int64_t rows) { ((Work *)work)->done(units, rows); },
        [](void *work) { delete (Work *)work; }};
    return &functions;
}

int32_t ts_activity(void *out, char *sentence) {
    return tusk_activity(static_cast<tusk_running *>(out), sentence);
}

void ts_max_min(int32_t n, const int32_t *wanted, const double *weight, int32_t cores,
                double *share) {
    tusk_max_min(n, wanted, weight, cores, share);
}

int32_t ts_take_turn(void *table, int32_t slot, int32_t cores, double now) {
    tusk_table *of = static_cast<tusk_table *>(table);
    return tusk_take_turn(of, of->slots + slot, cores, now).threads;
}

void ts_begin_computing(void *table, int32_t slot, int32_t wanted, double now) {
    tusk_begin_computing(static_cast<tusk_table *>(table)->slots + slot, wanted, now);
}
