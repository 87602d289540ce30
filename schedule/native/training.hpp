// A training of this process, as the pool sees it.
#ifndef TUSK_TRAINING_HPP
#define TUSK_TRAINING_HPP

namespace tusk {

struct Training;

// The calling thread's; null: it does not train, or nobody shares.
Training *training_of_thread();

// Threads that the training may have now, itself included; wanted: those that a computation of it
// asks for.
int threads_of(Training *training, int wanted);

} // namespace tusk
#endif
