// Steps of the weights against the gradient, and their rates.
#pragma once

#include "passes.hpp"

namespace tusk {

// The state of the algorithm of one net: two numbers per weight.
class Stepper {
public:
    int take(tusk_memory *memory, const tk_net &net, const Shape &shape);
    static int64_t floats(const Shape &shape) { return 2 * shape.floats(); }
    // Uses the numbers per weight in place, (floats,) each.
    void use(const tk_net &net, const Shape &shape, float *first, float *second);
    // rate: the learning rate of this epoch; gradient: shape.of_gradient().
    void step(double rate, const float *gradient, float *weights);
    // Moves the vectors that n rows of a batch read; called after `step`.
    void step_vectors(double rate, TouchedVectors &touched, int64_t n, int threads,
                      float *weights);
    int64_t steps() const { return steps_; }
    // The two numbers per weight, (2, floats), and the number of steps so far.
    float *numbers() { return first_; }
    void go_on(int64_t steps) { steps_ = steps; }

private:
    const tk_net *net_ = nullptr;
    const Shape *shape_ = nullptr;
    Charged<float> memory_;
    float *first_ = nullptr, *second_ = nullptr; // means of gradients, and of their squares
    int64_t steps_ = 0;
};

// Moves the vectors that a batch reads; steps: count including this one. A dense step also moves
// the others.
int step_held(const tk_net &net, double rate, int64_t steps, const tk_net_held &held,
              const tk_net_read &read);

// The learning rate of an epoch, from 0 on.
double rate_of(const tk_net &net, int64_t epoch);

} // namespace tusk
