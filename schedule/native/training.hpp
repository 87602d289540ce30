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

} // namespace tusk
#endif
