// Progress of one computation of a training.
#ifndef TUSK_WORK_HPP
#define TUSK_WORK_HPP

#include "training_state.hpp"

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

} // namespace tusk
#endif
