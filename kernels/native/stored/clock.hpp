// Penalties for a model that is mostly not in memory, so that no step may touch all weights.
//
// Between gradient steps weights follow dw/dt = -l2 w - l1 sign(w), where time t is the sum of the
// steps' lengths; after a time D, |w| has become
//     max(0, exp(-l2 D) |w| - l1 (1 - exp(-l2 D)) / l2),
// Two successive intervals have the same effect as one of their total length, so a payload's
// penalty may wait until the payload is needed (lazy updates: Langford, Li and Zhang, Sparse
// online learning via truncated gradient, 2009; Tsuruoka, Tsujii and Ananiadou, SGD training for
// L1-regularized log-linear models with cumulative penalty, 2009). Within a chunk the l2 part
// cannot wait. So we store u, where w = s u with a common s = exp(-l2 (t - base)). To keep s from
// underflowing, base advances by fixed spans of time, and payloads are rescaled when they are
// acquired. A frame's stamp is the time t up to which it is penalised, and determines its base.
//
// A step of length eta along the gradient g under l2 alone, exact while g is constant:
//     w <- exp(-a) w - eta phi(a) g,   a = eta l2,   phi(a) = (1 - exp(-a)) / a,
// Its fixed point is g = -l2 w for any eta.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "../../../kvstore/native/frames.h"
#include "../epochs/shared_weights.hpp"
#include "api.h"

namespace tusk {

// phi(a); exp(-a) is 1 - a phi(a).
inline double phi(double a) {
    if (a > 0.01)
        return -std::expm1(-a) / a;
    return 1 - a / 2 * (1 - a / 3 * (1 - a / 4 * (1 - a / 5 * (1 - a / 6))));
}

// Moves w towards 0 by `by`, without branches, because the signs of weights are unpredictable.
inline double closer(double w, double by) {
    return std::max(w - by, 0.0) + std::min(w + by, 0.0);
}

class Clock {
public:
    // Limits of l2 t in one span and in one step, so that float does not overflow.
    static constexpr double SPAN = 32, MOST_STEP = 8;

    Clock(double l1, double l2, double time) : l1(l1), l2(l2), time_(time) { begin_span(); }

    const double l1, l2;

    double time() const { return time_.load(std::memory_order_relaxed); }
    double add(double steps) { return time_.fetch_add(steps, std::memory_order_relaxed) + steps; }

    // Moves the base to the span of the current time, for all payloads acquired from now on. No
    // worker may hold payloads.
    void begin_span() {
        span_ = span_of(time());
        base_ = base_of(span_);
    }
    bool span_is_over() const { return l2 > 0 && time() >= base_of(span_ + 1); }
    double scale_at(double t) const { return l2 > 0 ? std::exp(-l2 * (t - base_)) : 1; }
    double longest_step() const { return l2 > 0 ? MOST_STEP / l2 : HUGE_VAL; }

    // Brings a frame of W up to date. Several workers may do this at once.
    template <class W> void settle(tusk_frame *frame) {
        double now = stamp_of_now(), stamp = read_stamp(frame);
        if (fresh(stamp, now))
            return;
        std::lock_guard guard(lock_of(frame));
        stamp = read_stamp(frame);
        if (fresh(stamp, now))
            return;
        double factor = 1, by = threshold(base_, now), before = base_of(span_of(stamp));
        if (before < base_) {
            factor = std::exp(-l2 * (base_ - before));
            by += l1 > 0 ? -l1 * std::expm1(-l2 * (base_ - stamp)) / l2 : 0;
        } else {
            by -= threshold(base_, stamp);
        }
        W *u = (W *)frame->weights;
        for (uint32_t k = 0; k < frame->width; k++)
            write_shared(u[k], (W)closer(read_shared(u[k]) * factor, by));
        std::atomic_ref<double>(frame->stamp).store(now, std::memory_order_release);
    }

private:
    static double read_stamp(tusk_frame *frame) {
        return std::atomic_ref<double>(frame->stamp).load(std::memory_order_acquire);
    }

    // The span with base_of(span) <= t < base_of(span + 1), in spite of rounding.
    double span_of(double t) const {
        if (l2 <= 0)
            return 0;
        double span = std::floor(t * l2 / SPAN);
        return t < base_of(span) ? span - 1 : t >= base_of(span + 1) ? span + 1 : span;
    }
    double base_of(double span) const { return l2 > 0 ? span * SPAN / l2 : 0; }

    // The stamp never lies in a later span than base, so that it determines the payload's base.
    double stamp_of_now() const {
        return l2 > 0 ? std::min(time(), std::nextafter(base_of(span_ + 1), 0.0)) : time();
    }

    bool fresh(double stamp, double now) const {
        if (l1 > 0)
            return stamp >= now;
        return l2 <= 0 || span_of(stamp) == span_;
    }

    // The amount by which l1 lowers |u| from time `from` to time t, both in the span of `from`.
    double threshold(double from, double t) const {
        return l1 <= 0 ? 0 : l2 > 0 ? l1 * std::expm1(l2 * (t - from)) / l2 : l1 * (t - from);
    }

    std::mutex &lock_of(const tusk_frame *frame) {
        return locks_[((uintptr_t)frame >> 4) * 0x9e3779b97f4a7c15u >> 58];
    }

    std::atomic<double> time_;
    double span_ = 0, base_ = 0;
    std::mutex locks_[64];
};

// A worker's view of the clock. A worker adds its steps to the shared time only every few rows,
// because workers would otherwise contend for it.
class OwnClock {
public:
    explicit OwnClock(Clock &clock) : clock_(clock) { merge(); }
    ~OwnClock() { merge(); }

    double scale() const { return scale_; }

    // Makes a step of length eta for a batch of rows. Returns the factor of the gradient that is
    // subtracted from u.
    double step(double eta, int64_t rows) {
        double a = eta * clock_.l2, part = phi(a);
        pending_ += eta;
        scale_ *= 1 - a * part;
        double by = eta * part / scale_;
        rows_ += rows;
        if (rows_ >= 32 || pending_ * clock_.l2 > 0.01)
            merge();
        return by;
    }

private:
    void merge() {
        scale_ = clock_.scale_at(clock_.add(pending_));
        pending_ = 0;
        rows_ = 0;
    }

    Clock &clock_;
    double scale_ = 1, pending_ = 0;
    int64_t rows_ = 0;
};

} // namespace tusk
