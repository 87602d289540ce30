// Forward and backward passes of rows through a net: margins, losses and gradients.
#pragma once

#include <vector>

#include "../shared/charged.hpp"
#include "arithmetic/random.hpp"
#include "vectors.hpp"

namespace tusk {

constexpr int64_t ROWS = 64; // that go through a net at once

// Inputs of one group: rows (n, shape.stride()), and labels; for classes their indices. weight: of
// the loss of each row, (n,), or NULL; total: the sum over the rows.
struct Rows {
    const float *x, *y;
    int64_t n;
    const float *weight;
    double total;
};

// Buffers for ROWS rows: for each layer its inputs, and for hidden units the slopes.
class Space {
public:
    int take(tusk_memory *memory, const Shape &shape);
    static int64_t floats(const Shape &shape);

    std::vector<float *> input, slope; // by layer, (ROWS, padded(in))
    float *margins = nullptr;          // (ROWS, padded(outputs))
    float *delta[2] = {};              // derivatives by the sums of two layers
    float *label = nullptr;            // (ROWS,)
    float *weight = nullptr;           // (ROWS,)
    std::vector<int32_t> level;        // (ROWS, tables), -1: none
    float *gradient = nullptr;         // like the weights, shape.of_gradient()

private:
    Charged<float> memory_;
};

// The weights, and the matrices after the first layer transposed: (out, padded(in)). Those of
// layers of few units are stored so. embedded: the part of the first matrix whose inputs are
// vectors of tables, (out, padded(embedded)).
struct Weights {
    const float *flat, *embedded;
    std::vector<const float *> transposed;
};

// Arguments of a pass over the rows of a batch.
struct Batch {
    const tk_net *net;
    const Shape *shape;
    const Weights *weights;
    Rows rows;
    const uint32_t *order;             // of the batch's rows; NULL: in their order
    int64_t n;                         // rows of the batch
    int64_t cancel_mark;               // after a cancel, sums are incomplete
    TouchedVectors *touched = nullptr; // for sparse steps
};

// The sum of the losses of rows `from` to `to` of a batch. Without `gradient` no dropout.
double losses_of(const Batch &batch, int64_t from, int64_t to, Space &space);
// The same, and adds the gradient of the batch's mean loss to space.gradient. seed: of dropout.
double add_gradient(const Batch &batch, int64_t from, int64_t to, uint64_t seed, Space &space);

// The sum of losses of n rows, each times its weight (1 where NULL); turns `margins` into
// derivatives by them, times `scale`.
double output_losses(const tk_net &net, float *margins, const float *y, const float *weight,
                     int64_t n, float scale);

} // namespace tusk
