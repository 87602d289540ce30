// A training of this process, as the pool sees it.
#ifndef TUSK_TRAINING_HPP
#define TUSK_TRAINING_HPP

namespace tusk {

struct Training;

// The calling thread's training; null if it does not train or sharing is off.
Training *training_of_thread();

// Number of threads that the training may have now, itself included; wanted: number that its
// computation requests.
int threads_of(Training *training, int wanted);

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
