// One training of this process: its slot in the table, and its share.
#ifndef TUSK_TRAINING_STATE_HPP
#define TUSK_TRAINING_STATE_HPP

#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <mutex>
#include <vector>

#include "../../udas/scalars/activity/table.h"
#include "shares.h"

namespace tusk {

// A training of this process, as the pool sees it.

struct Training;

// The calling thread's training; null if it does not train or sharing is off.
Training *training_of_thread();

// Number of threads that the training may have now, itself included; wanted: number that its
// computation requests.
int threads_of(Training *training, int wanted);

struct Training {
    int depth = 0, forks = 0;
    std::atomic<int> parts{1}; // threads that train for it at the same time
    double began = 0;

    // The process id has changed, as after a fork.
    static void process_changed();

    void begin(const ts_beginning &given, tusk_table *in);
    void leave();
    // Marks a child's copy of a training of its parent, which keeps the slot.
    void inherited();

    int threads(int of_part);
    // Threads in the mean, from 1 to `wanted`.
    int mean_threads(int wanted);

    // A computation of one of its threads begins and ends, and waits for its turn.
    void begin_computing(int wanted);
    void end_computing();
    void wait_for_turn();
    std::atomic<double> deadline{0}; // after which it does not wait; 0: none
    // Counts cancellations of the process; null: unknown.
    static std::atomic<int64_t (*)(void)> cancels;

    void replay(int n, const double *seconds, const int32_t *threads);
    void note_plan(const char *plan, double seconds);
    void note_models(int64_t groups);
    void note_step(double part, int64_t of_groups, int64_t more_rows);

    // Requests a device, from 1 on. Returns whether the training has to wait for its turn.
    bool ask_device(int device);
    // Returns whether it has the requested device, and takes it if it is its turn.
    bool take_device();
    // Whether another training waits for its device.
    bool device_is_wanted();
    void leave_device();

private:
    tusk_slot *slot_of_old(int asked, double time);
    void enter(int asked, double time);
    void fill(tusk_slot &slot, int asked, double time);
    void look(double time);
    void note_pace(tusk_slot &slot, double pace, double time);
    void note_progress(double of_all);
    bool is_mine(tusk_slot &slot) const;
    void count_computing(tusk_slot &slot) const;
    bool take_thread();
    bool leave_thread();
    bool may_wait() const;
    bool is_held(int64_t place, int32_t device) const;
    int replayed(double time) const;

    char program_[TUSK_PROGRAM_BYTES] = {}, task_[TUSK_TASK_BYTES] = {},
         plan_[TUSK_PLAN_BYTES] = {};
    int64_t groups_ = 0, done_ = 0, rows_ = 0;
    double progress_ = NAN, progress_at_ = 0, weight_ = 1;
    double expected_ = NAN, expected_at_ = 0;
    int32_t cores_ = 1;
    int64_t number_ = 0;
    std::vector<double> replay_seconds_;
    std::vector<int32_t> replay_threads_;

    tusk_table *table_ = nullptr;
    std::atomic<tusk_slot *> slot_{nullptr};
    std::atomic<int32_t> wanted_{1}, share_{INT_MAX};
    std::atomic<double> mean_{INT_MAX};
    std::atomic<bool> contended_{false};
    std::atomic<int> computing_{0}; // computations that run or wait
    std::atomic<int> demand_{0};    // threads that the last one can use
    std::atomic<int> callers_{0};   // those of them that have a thread
    int64_t cancels_ = 0;           // at its beginning
    double removed_at_ = 0;         // last removal of ended processes
    std::atomic<uint64_t> generation_{0};
    std::atomic<double> looked_{0};
    std::atomic<double> enter_at_{0}; // when a slot is requested, again if there was none
    std::mutex looking_;
};

// Whether the calling thread runs a task whose job has helpers, which must not wait.
extern thread_local bool in_shared_task;

// A computation of the calling thread for a training, which may be null. Between its tasks it
// waits where it is the turn of others.
class Computation {
public:
    Computation(Training *training, int wanted);
    ~Computation();
    Computation(const Computation &) = delete;
    Computation &operator=(const Computation &) = delete;
    void wait_for_turn();

private:
    Training *training_;
    bool is_outermost_;
};

} // namespace tusk

#endif
