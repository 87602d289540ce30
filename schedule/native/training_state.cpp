#include "training_state.hpp"

#include <new>

#include <time.h>
#include <unistd.h>

namespace tusk {

namespace {

constexpr double YOUNG = 0.02;       // seconds before a training takes a slot
constexpr double LOOK_EVERY = 0.25;  // seconds between checks for slots of ended processes
constexpr double TURN_EVERY = 0.005; // seconds between looks while cores are contended
constexpr timespec WAIT{0, 1000000};

std::mutex entering;
std::atomic<int64_t> own_pid{0}, own_began{0}, trainings{0};

// Like tusk_table_now, to some milliseconds, in a tenth of the time.
double coarse_now() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void changed(tusk_table *table) {
    __atomic_add_fetch(&table->generation, 1, __ATOMIC_SEQ_CST);
}

} // namespace

void Training::process_changed() {
    new (&entering) std::mutex;
    own_pid = getpid();
    own_began = tusk_process_began(own_pid);
    trainings = 0;
}

void Training::begin(const ts_beginning &given, tusk_table *in) {
    table_ = in;
    tusk_put_text(program_, sizeof program_, given.program);
    tusk_put_text(task_, sizeof task_, given.task);
    plan_[0] = 0;
    number_ = trainings.fetch_add(1) + 1;
    groups_ = given.groups;
    done_ = rows_ = 0;
    progress_ = expected_ = NAN;
    weight_ = given.weight;
    cores_ = given.cores;
    began = coarse_now();
    wanted_ = 1;
    share_ = INT_MAX;
    mean_ = INT_MAX;
    contended_ = false;
    computing_ = callers_ = demand_ = 0;
    deadline = 0;
    generation_ = 0;
    looked_ = removed_at_ = began;
    const auto count = cancels.load();
    cancels_ = count ? count() : 0;
    enter_at_ = began + YOUNG;
    parts = 1;
    replay_seconds_.clear();
    replay_threads_.clear();
}

void Training::inherited() {
    slot_ = nullptr;
    new (&looking_) std::mutex;
}

int Training::threads(int of_part) {
    const double time = coarse_now();
    const int n = parts.load(std::memory_order_relaxed), asked = of_part * n;
    tusk_slot *mine = slot_of_old(asked, time);
    if (mine) {
        if (asked > wanted_.load(std::memory_order_relaxed)) {
            wanted_ = asked;
            TUSK_STORE(mine->wanted, asked);
            changed(table_);
        }
        const uint64_t now = __atomic_load_n(&table_->generation, __ATOMIC_ACQUIRE);
        const double every = contended_.load(std::memory_order_relaxed) ? TURN_EVERY : LOOK_EVERY;
        if (now != generation_.load() || time - looked_.load() > every)
            look(time);
    }
    if (!replay_seconds_.empty())
        return std::min(of_part, replayed(time) / n);
    return std::min(of_part, share_.load(std::memory_order_relaxed) / n);
}

int Training::mean_threads(int wanted) {
    const int now = threads(wanted); // enters the table, and looks
    if (!replay_seconds_.empty())
        return std::max(now, 1);
    const double mean = std::round(mean_.load() / parts);
    return (int)std::clamp(mean, 1.0, (double)std::max(wanted, 1));
}

std::atomic<int64_t (*)(void)> Training::cancels{nullptr};

// Whether the calling thread has one of the threads of its training's share.
thread_local bool has_thread = false;

void Training::count_computing(tusk_slot &slot) const {
    int now;
    do {
        now = computing_.load();
        TUSK_STORE(slot.inside, now);
    } while (now != computing_.load());
}

void Training::begin_computing(int wanted) {
    tusk_slot *mine = slot_.load(std::memory_order_relaxed);
    if (mine)
        tusk_begin_computing(mine, wanted * parts, coarse_now());
    demand_ = wanted * parts;
    computing_++;
    if (mine)
        count_computing(*mine);
}

void Training::end_computing() {
    if (has_thread)
        callers_--;
    has_thread = false;
    tusk_slot *mine = slot_.load(std::memory_order_relaxed);
    if (mine)
        TUSK_STORE(mine->active_at, coarse_now());
    computing_--;
    if (mine)
        count_computing(*mine);
}

void Training::wait_for_turn() {
    threads(1); // enters the table, and looks
    if (has_thread && !leave_thread())
        return;
    while (!(has_thread = take_thread()) && may_wait()) {
        nanosleep(&WAIT, nullptr);
        const double time = tusk_table_now();
        if (slot_of_old(wanted_, time))
            look(time);
    }
}

// Takes one of the threads of its share for a caller, unless others of it have them all.
bool Training::take_thread() {
    int now = callers_.load(std::memory_order_relaxed);
    while (now < share_.load(std::memory_order_relaxed))
        if (callers_.compare_exchange_weak(now, now + 1))
            return true;
    return false;
}

// Gives the caller's thread back where callers have more threads than the share.
bool Training::leave_thread() {
    int now = callers_.load(std::memory_order_relaxed);
    while (now > share_.load(std::memory_order_relaxed))
        if (callers_.compare_exchange_weak(now, now - 1))
            return true;
    return false;
}

bool Training::may_wait() const {
    const auto count = cancels.load();
    const double at = deadline.load();
    return !(count && count() != cancels_) && !(at > 0 && tusk_table_now() >= at);
}

int Training::replayed(double time) const {
    const auto after =
        std::upper_bound(replay_seconds_.begin(), replay_seconds_.end(), time - began);
    return after == replay_seconds_.begin()
               ? INT_MAX
               : replay_threads_[(size_t)(after - replay_seconds_.begin()) - 1];
}

void Training::replay(int n, const double *seconds, const int32_t *threads) {
    replay_seconds_.assign(seconds, seconds + n);
    replay_threads_.assign(threads, threads + n);
}

void Training::leave() {
    std::lock_guard lock(entering);
    tusk_slot *mine = slot_.exchange(nullptr);
    if (mine && is_mine(*mine)) {
        tusk_release(table_, mine);
        changed(table_);
    }
}

// A container with other process ids may have removed the slot.
bool Training::is_mine(tusk_slot &slot) const {
    return TUSK_LOAD(slot.pid) == own_pid && TUSK_LOAD(slot.process_began) == own_began &&
           TUSK_LOAD(slot.began) == began;
}

void Training::enter(int asked, double time) {
    std::lock_guard lock(entering);
    if (slot_.load())
        return;
    enter_at_ = table_ ? time + LOOK_EVERY : INFINITY;
    if (!table_)
        return;
    for (tusk_slot &one : table_->slots) {
        int64_t free = 0;
        if (!__atomic_compare_exchange_n(&one.pid, &free, own_pid.load(), false, __ATOMIC_SEQ_CST,
                                         __ATOMIC_SEQ_CST))
            continue;
        fill(one, asked, time);
        wanted_ = asked;
        slot_ = &one;
        TUSK_STORE(one.ready, 1);
        changed(table_);
        return;
    }
    tusk_remove_gone(table_);
    mean_ = share_ = std::max(1, cores_ / TUSK_SLOTS); // as if all slots were in use
}

void Training::fill(tusk_slot &slot, int asked, double time) {
    TUSK_STORE(slot.ready, 0);
    TUSK_STORE(slot.process_began, own_began.load());
    TUSK_STORE(slot.wanted, asked);
    TUSK_STORE(slot.cores, cores_);
    TUSK_STORE(slot.number, number_);
    TUSK_STORE(slot.device, 0);
    TUSK_STORE(slot.weight, weight_);
    TUSK_STORE(slot.began, began);
    TUSK_STORE(slot.groups, groups_);
    TUSK_STORE(slot.done, done_);
    TUSK_STORE(slot.rows, rows_);
    TUSK_STORE(slot.progress, progress_);
    TUSK_STORE(slot.progress_at, progress_at_);
    TUSK_STORE(slot.ideal, time - began);
    TUSK_STORE(slot.ideal_at, time);
    TUSK_STORE(slot.pace, 1.0);
    TUSK_STORE(slot.expected, expected_);
    TUSK_STORE(slot.expected_at, expected_at_);
    TUSK_STORE(slot.demand, std::max(asked, demand_.load()));
    TUSK_STORE(slot.demand_at, time);
    TUSK_STORE(slot.held, 0);
    TUSK_STORE(slot.active_at, 0.0);
    TUSK_STORE(slot.credit, 0.0);
    TUSK_STORE(slot.credit_at, time);
    TUSK_STORE(slot.waits_since, 0.0);
    TUSK_STORE(slot.core_seconds, 0.0);
    count_computing(slot);
    tusk_put_text(slot.program, sizeof slot.program, program_);
    tusk_put_text(slot.task, sizeof slot.task, task_);
    tusk_put_text(slot.plan, sizeof slot.plan, plan_);
}

// Its slot, taken now if it is old enough and has none yet.
tusk_slot *Training::slot_of_old(int asked, double time) {
    tusk_slot *mine = slot_.load(std::memory_order_relaxed);
    if (mine || time < enter_at_.load(std::memory_order_relaxed))
        return mine;
    enter(asked, time);
    return slot_.load();
}

// One thread of the training updates the share; others continue with the current one.
void Training::look(double time) {
    std::unique_lock lock(looking_, std::try_to_lock);
    tusk_slot *mine = slot_.load();
    if (!lock || !mine)
        return;
    if (!is_mine(*mine)) {
        slot_ = nullptr;
        enter_at_ = time;
        return;
    }
    if (time - removed_at_ > LOOK_EVERY) {
        tusk_remove_gone(table_);
        removed_at_ = time;
    }
    generation_ = __atomic_load_n(&table_->generation, __ATOMIC_ACQUIRE);
    looked_ = time;
    const tusk_turn turn = tusk_take_turn(table_, mine, cores_, tusk_table_now());
    share_ = turn.threads;
    mean_ = turn.share;
    contended_ = turn.contended;
    note_pace(*mine, turn.pace, time);
}

void Training::note_pace(tusk_slot &slot, double pace, double time) {
    const double since = time - TUSK_LOAD(slot.ideal_at);
    TUSK_STORE(slot.ideal, TUSK_LOAD(slot.ideal) + since * TUSK_LOAD(slot.pace));
    TUSK_STORE(slot.ideal_at, time);
    TUSK_STORE(slot.pace, pace);
}

void Training::note_plan(const char *plan, double seconds) {
    std::lock_guard lock(entering); // as several threads may train it
    tusk_put_text(plan_, sizeof plan_, plan);
    expected_ = seconds;
    expected_at_ = coarse_now();
    if (tusk_slot *slot = slot_.load()) {
        tusk_put_text(slot->plan, sizeof slot->plan, plan);
        TUSK_STORE(slot->expected, expected_);
        TUSK_STORE(slot->expected_at, expected_at_);
    }
}

void Training::note_models(int64_t groups) {
    done_ += groups;
    if (tusk_slot *slot = slot_of_old(parts, coarse_now()))
        TUSK_STORE(slot->done, done_);
    note_progress((double)done_ / (double)std::max<int64_t>(groups_, 1));
}

void Training::note_step(double part, int64_t of_groups, int64_t more_rows) {
    rows_ += more_rows;
    if (tusk_slot *slot = slot_of_old(parts, coarse_now())) // trainings on few rows never use the
                                                            // pool
        TUSK_STORE(slot->rows, rows_);
    if (part >= 0) {
        const double done = (double)done_ + std::min(part, 1.0) * (double)of_groups;
        note_progress(done / (double)std::max<int64_t>(groups_, 1));
    }
}

void Training::note_progress(double of_all) {
    progress_ = std::min(of_all, 1.0);
    progress_at_ = coarse_now();
    if (tusk_slot *slot = slot_.load()) {
        TUSK_STORE(slot->progress_at, progress_at_);
        TUSK_STORE(slot->progress, progress_);
    }
}

} // namespace tusk
