// Takes losses with the formulas of the linear learners, `linear/losses.hpp`.
#include "gradients.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../linear/losses.hpp"
#include "../shared/pool.hpp"

namespace tusk {
namespace {

constexpr uint32_t PART = 16384; // rows of one piece of work

// Neighbouring rows of one segment.
struct Piece {
    const double *y;
    int64_t first; // number of the first row in the group
    uint32_t n;
};

std::vector<Piece> pieces_of(const tusk_group &group) {
    std::vector<Piece> out;
    int64_t first = 0;
    for (const tusk_segment *s = group.head; s; s = s->next)
        for (uint32_t at = 0; at < s->n_rows; at += PART) {
            uint32_t n = std::min(PART, s->n_rows - at);
            out.push_back({tusk_labels(s) + at, first, n});
            first += n;
        }
    return out;
}

// The integers for numbers of at most `most`, n of which must fit into a sum of 62 bits.
double unit_for(double most, double n, int bits) {
    int exponent = 0;
    std::frexp(std::max(most, 1e-300) * n, &exponent);
    return std::ldexp(1.0, exponent - bits);
}

// Reads margins and labels of up to eight rows. Rows beyond the last one repeat it.
struct Eight {
    v8d m, y;
    int n;
};
Eight read(const Labels &labels, const Piece &p, const double *margins, uint32_t at) {
    Eight e;
    e.n = (int)std::min<uint32_t>(LANES, p.n - at);
    if (e.n == LANES) {
        e.m = load(margins + p.first + at), e.y = load(p.y + at);
        if (labels.objective == TK_LOGISTIC)
            e.y = select<v8d>(e.y == labels.positive, splat(1), splat(-1));
        return e;
    }
    for (int i = 0; i < LANES; i++) {
        uint32_t row = at + std::min(i, e.n - 1);
        double y = p.y[row];
        e.m[i] = margins[p.first + row];
        e.y[i] = labels.objective != TK_LOGISTIC ? y : y == labels.positive ? 1 : -1;
    }
    return e;
}

template <class Loss>
double widest(const Labels &labels, const std::vector<Piece> &pieces, const double *margins,
              int threads) {
    if (Loss::classifies)
        return 1; // of a logistic derivative
    std::vector<double> most(pieces.size());
    parallel_for((int64_t)pieces.size(), threads, [&](int64_t i) {
        double size = 0;
        for (uint32_t k = 0; k < pieces[i].n; k++)
            size = std::max(size, std::fabs(margins[pieces[i].first + k] - pieces[i].y[k]));
        most[i] = size;
    });
    (void)labels;
    return *std::max_element(most.begin(), most.end());
}

// Writes what n rows add. Gradients are cut off to integers, curvatures are rounded.
void write(const LossValues<v8d> &v, const Units &units, int n, Addend *out) {
    v8i gradient = __builtin_convertvector(v.derivative * (1 / units.gradient), v8i);
    v8i curvature = __builtin_convertvector(v.curvature * (1 / units.curvature) + 0.5, v8i);
    curvature |= INT64_C(1) << COUNT_SHIFT;
    v8i pairs[2] = {
        __builtin_shufflevector(gradient, curvature, 0, 8, 1, 9, 2, 10, 3, 11),
        __builtin_shufflevector(gradient, curvature, 4, 12, 5, 13, 6, 14, 7, 15),
    };
    std::memcpy(out, pairs, n * sizeof *out);
}

template <class Loss>
double take(const Labels &labels, const double *margins, int threads, Addend *addends,
            Units *units) {
    auto pieces = pieces_of(*labels.group);
    auto n = (double)labels.group->n_rows;
    if (addends)
        *units = Units{unit_for(widest<Loss>(labels, pieces, margins, threads), n, 62),
                       Loss::classifies ? 0x1p-25 : 0x1p-23}; // curvatures up to 1/4, or 1
    std::vector<double> losses(pieces.size());
    parallel_for((int64_t)pieces.size(), threads, [&](int64_t i) {
        const Piece &p = pieces[i];
        Loss loss(0);
        double total = 0;
        for (uint32_t at = 0; at < p.n; at += LANES) {
            Eight e = read(labels, p, margins, at);
            LossValues<v8d> v = loss(e.m, e.y);
            for (int k = 0; k < e.n; k++)
                total += v.loss[k];
            if (addends)
                write(v, *units, e.n, addends + p.first + at);
        }
        losses[i] = total;
    });
    double total = 0;
    for (double part : losses)
        total += part;
    return total / n;
}

} // namespace

double best_constant(const Labels &labels) {
    double sum = 0;
    auto n = (double)labels.group->n_rows;
    for (const Piece &p : pieces_of(*labels.group))
        for (uint32_t i = 0; i < p.n; i++)
            sum += labels.objective != TK_LOGISTIC ? p.y[i] : p.y[i] == labels.positive;
    if (labels.objective != TK_LOGISTIC)
        return sum / n;
    double share = std::clamp(sum / n, 1e-15, 1 - 1e-15);
    return std::log(share / (1 - share));
}

double take_losses(const Labels &labels, const double *margins, int threads, Addend *addends,
                   Units *units) {
    return labels.objective == TK_LOGISTIC
               ? take<Logistic>(labels, margins, threads, addends, units)
               : take<Squared>(labels, margins, threads, addends, units);
}

} // namespace tusk
