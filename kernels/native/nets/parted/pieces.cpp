// Pieces of a batch of a net on several workers: rows, losses and gradients, and steps.
#include <memory>

#include "../descent.hpp"

// State of a worker between batches.
struct tk_net_room {
    tusk_memory *memory;
    tusk::Turned turned;
    std::vector<tusk::Space> spaces;
};

namespace tusk {
namespace {

// The net with sparse vectors: gradients by the layers, and by the vectors of rows.
tk_net as_sparse(const tk_net &net) {
    tk_net found = net;
    found.sparse = 1;
    return found;
}

int copy_out(const tk_pass &pass, const tk_net &net, tusk_memory *memory,
             const tk_net_visit &visit, float *x, float *y, float *weight) {
    Descent own(pass, net, 0, 1, memory);
    const Shape &shape = own.shape();
    int code = own.take_rows(units_of(visit, shape.plain));
    if (code)
        return code;
    own.weigh(visit.units[2 * shape.plain + 2]);
    const Rows &rows = own.rows();
    std::copy_n(rows.x, rows.n * shape.stride(), x);
    std::copy_n(rows.y, rows.n, y);
    if (weight && rows.weight)
        std::copy_n(rows.weight, rows.n, weight);
    else if (weight)
        std::fill_n(weight, rows.n, 1.0f);
    return cancelled(pass.cancel_mark) ? (int)TK_CANCELLED : (int)TK_OK;
}

// Adds neighbouring gradients by pairs until the first one has the sum.
void add_by_pairs(std::vector<Space> &spaces, int64_t n, int64_t floats) {
    for (int64_t apart = 1; apart < n; apart *= 2)
        for (int64_t p = 0; p + apart < n; p += 2 * apart) {
            float *sum = spaces[(size_t)p].gradient;
            const float *more = spaces[(size_t)(p + apart)].gradient;
            for (int64_t i = 0; i < floats; i++)
                sum[i] += more[i];
        }
}

int pass_pieces(tk_net_room &room, const tk_net &net, int64_t d, int threads, int64_t cancel_mark,
                const tk_net_pieces &given) {
    const Shape shape(net, d);
    const int64_t n = given.begin[given.n], floats = shape.of_layers();
    TouchedVectors touched;
    int code = touched.take(room.memory, shape, n);
    if (code)
        return code;
    room.turned.look_at(shape, given.weights);
    room.turned.renew(shape);
    const Rows rows{given.x, given.y, n, given.weight, (double)n};
    const Batch batch{&net,    &shape,     &room.turned.view(), rows,
                      nullptr, given.rows, cancel_mark,         &touched};
    const uint64_t seed = within(seed_of_epoch(net, given.epoch), given.step + 1);
    parallel_for(given.n, n * floats < WORTH_WAKING ? 1 : threads, [&](int64_t p) {
        Space &space = room.spaces[(size_t)p];
        const int64_t from = given.begin[p], to = given.begin[p + 1];
        if (!given.gradient) {
            given.loss[p] = losses_of(batch, from, to, space);
            return;
        }
        std::fill_n(space.gradient, floats, 0.0f);
        const auto number = (uint64_t)(given.first + p);
        given.loss[p] = add_gradient(batch, from, to, within(seed, number), space);
    });
    if (cancelled(cancel_mark))
        return TK_CANCELLED;
    if (!given.gradient)
        return TK_OK;
    add_by_pairs(room.spaces, given.n, floats);
    std::copy_n(room.spaces[0].gradient, floats, given.gradient);
    for (int64_t t = 0; t < net.n_tables; t++)
        touched.each(t, n, [&](const float *sum, int64_t at, int64_t length) {
            std::copy_n(sum, length, given.by_vectors + at - floats);
        });
    return TK_OK;
}

} // namespace
} // namespace tusk

int64_t tk_net_stride(const tk_net *net, int64_t d) {
    return tusk::Shape(*net, d).stride();
}

int64_t tk_net_layers(const tk_net *net, int64_t d) {
    return tusk::Shape(*net, d).of_layers();
}

int tk_net_rows(const tk_pass *pass, const tk_net *net, tusk_memory *memory,
                const tk_net_visit *visit, float *x, float *y, float *weight) {
    using namespace tusk;
    return code_of([&] { return copy_out(*pass, *net, memory, *visit, x, y, weight); });
}

int tk_net_room_open(const tk_net *net, int64_t d, int64_t pieces, tusk_memory *memory,
                     tk_net_room **room) {
    using namespace tusk;
    return code_of([&] {
        const Shape shape(as_sparse(*net), d);
        auto made = std::make_unique<tk_net_room>();
        made->memory = memory;
        made->spaces = std::vector<Space>((size_t)pieces);
        int code = made->turned.take(memory, shape);
        for (Space &space : made->spaces)
            code = code ? code : space.take(memory, shape);
        if (!code)
            *room = made.release();
        return code;
    });
}

void tk_net_room_close(tk_net_room *room) {
    delete room;
}

int tk_net_pieces_pass(tk_net_room *room, const tk_net *net, int64_t d, int threads,
                       int64_t cancel_mark, const tk_net_pieces *pieces) {
    using namespace tusk;
    return code_of(
        [&] { return pass_pieces(*room, as_sparse(*net), d, threads, cancel_mark, *pieces); });
}

int tk_net_step_layers(const tk_net *net, int64_t d, int64_t epoch, int64_t steps,
                       const float *gradient, float *layers) {
    using namespace tusk;
    return code_of([&] {
        const tk_net own = as_sparse(*net);
        const Shape shape(own, d);
        const int64_t n = shape.of_layers();
        Stepper stepper;
        stepper.use(own, shape, layers + n, layers + 2 * n);
        stepper.go_on(steps - 1);
        stepper.step(rate_of(own, epoch), gradient, layers);
        return TK_OK;
    });
}

int tk_net_step_held(const tk_net *net, int64_t epoch, int64_t steps, const tk_net_held *held,
                     const tk_net_read *read) {
    using namespace tusk;
    return code_of([&] { return step_held(*net, rate_of(*net, epoch), steps, *held, *read); });
}

void tk_net_gather(const float *numbers, const int64_t *at, const int32_t *length, int64_t n,
                   float *out) {
    for (int64_t i = 0; i < n; i++)
        out = std::copy_n(numbers + at[i], length[i], out);
}

void tk_net_scatter(float *numbers, const int64_t *at, const int32_t *length, int64_t n,
                    const float *given) {
    for (int64_t i = 0; i < n; given += length[i], i++)
        std::copy_n(given, length[i], numbers + at[i]);
}
