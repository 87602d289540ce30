// A net that goes from part to part of a group's rows: the operations at each part.
#include "../descent.hpp"

namespace tusk {
namespace {

// A net with its state at a part.
class Visit {
public:
    Visit(const tk_pass &pass, const tk_net &net, tusk_memory *memory, tk_net_visit &visit)
        : net_(net), visit_(visit), own_(pass, net, 0, pass.threads, memory) {}

    int steps(float *state) {
        int code = begin(state);
        if (code)
            return code;
        uint64_t dropout = seed_of_epoch(net_, visit_.epoch);
        uint64_t order = within(within(within(net_.seed, 3), visit_.epoch), visit_.part);
        bool late = false;
        code = own_.steps({visit_.epoch, order, dropout, visit_.rows_before},
                          Deadline(net_.seconds), &visit_.loss, &late);
        visit_.late = late;
        visit_.steps = own_.stepper().steps();
        int64_t n = own_.shape().floats();
        std::copy_n(own_.weights(), n, state);
        std::copy_n(own_.stepper().numbers(), 2 * n, state + n);
        return code;
    }

    int losses(const float *state) {
        int code = begin(state);
        return code ? code : own_.sum_losses(own_.rows(), &visit_.loss);
    }

private:
    int begin(const float *state) {
        Units units = units_of(visit_, own_.shape().plain);
        int code = own_.take_rows(units);
        if (!code)
            own_.weigh(visit_.units[2 * own_.shape().plain + 2]);
        code = code ? code : own_.take_memory();
        if (code)
            return code;
        int64_t n = own_.shape().floats();
        std::copy_n(state, n, own_.weights());
        std::copy_n(state + n, 2 * n, own_.stepper().numbers());
        own_.stepper().go_on(visit_.steps);
        visit_.loss = 0;
        visit_.weight = own_.rows().total;
        return TK_OK;
    }

    const tk_net &net_;
    tk_net_visit &visit_;
    Descent own_;
};

} // namespace
} // namespace tusk

int64_t tk_net_floats(const tk_net *net, int64_t d) {
    return tusk::Shape(*net, d).floats();
}

int tk_net_begin(const tk_net *net, const tk_net_visit *visit, int64_t d, float *state) {
    using namespace tusk;
    return code_of([&] {
        Shape shape(*net, d);
        std::fill_n(state, 3 * shape.floats(), 0.0f);
        if (net->start)
            read_weights(shape, units_of(*visit, shape.plain), net->start, state);
        else
            draw_weights(shape, *net, state);
        return TK_OK;
    });
}

int tk_visit_net(const tk_pass *pass, const tk_net *net, tusk_memory *memory, tk_net_visit *visit,
                 float *state) {
    using namespace tusk;
    return code_of([&] { return Visit(*pass, *net, memory, *visit).steps(state); });
}

int tk_net_losses(const tk_pass *pass, const tk_net *net, tusk_memory *memory, tk_net_visit *visit,
                  const float *state) {
    using namespace tusk;
    return code_of([&] { return Visit(*pass, *net, memory, *visit).losses(state); });
}

int tk_net_end(const tk_net *net, const tk_net_visit *visit, int64_t d, const float *state,
               double *weights) {
    using namespace tusk;
    return code_of([&] {
        Shape shape(*net, d);
        write_weights(shape, units_of(*visit, shape.plain), state, weights);
        return TK_OK;
    });
}

int64_t tk_net_moments(const tk_pass *pass, const tk_net *net, double *out) {
    using namespace tusk;
    Shape shape(*net, pass->groups[0].dim);
    if (out)
        moments_of(pass->groups[0], shape, pass->cancel_mark, out);
    return 2 * shape.plain + counts_of(shape);
}

int tk_net_centre(const tk_net *net, int64_t d, const double *count, double total, float *state) {
    return tusk::code_of([&] {
        tusk::centre_vectors(tusk::Shape(*net, d), count, total, state);
        return TK_OK;
    });
}
