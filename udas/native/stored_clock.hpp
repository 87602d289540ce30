// The penalties of a model most of which is not in memory: no step may touch all weights.
//
// Between gradient steps weights follow dw/dt = -l2 w - l1 sign(w), where time t is the sum of the
// steps' lengths; after a time D, |w| has become
//     max(0, exp(-l2 D) |w| - l1 (1 - exp(-l2 D)) / l2),
// and two times one after the other make what their sum makes, so a payload may wait until it is
// needed (lazy updates: Langford, Li and Zhang, Sparse online learning via truncated gradient,
// 2009; Tsuruoka, Tsujii and Ananiadou, SGD training for L1-regularized log-linear models with
// cumulative penalty, 2009). The l2 part cannot wait within a chunk: stored is u, with w = s u for
// one s = exp(-l2 (t - base)). s must not underflow: base goes up by fixed spans of time, and
// payloads follow when they are acquired. A frame's stamp is the t to which it was brought; base
// follows from it.
//
// A step of length eta along the gradient g under l2 alone, exact while g is constant:
//     w <- exp(-a) w - eta phi(a) g,   a = eta l2,   phi(a) = (1 - exp(-a)) / a,
// which stands still where g = -l2 w, whatever eta is.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "../../kvstore/native/frames.h"

namespace tusk {

// Weights are shared: relaxed atomics, to the processor plain moves (see hogwild.cpp).
template <class W> inline W read_shared(W &x) {
    return std::atomic_ref<W>(x).load(std::memory_order_relaxed);
}
template <class W> inline void write_shared(W &x, W v) {
    std::atomic_ref<W>(x).store(v, std::memory_order_relaxed);
}

// phi(a); exp(-a) is 1 - a phi(a).
inline double phi(double a) {
    if (a > 0.01)
        return -std::expm1(-a) / a;
    return 1 - a / 2 * (1 - a / 3 * (1 - a / 4 * (1 - a / 5 * (1 - a / 6))));
}

// w by `by` closer to 0, without branches: signs of weights cannot be foreseen.
inline double closer(double w, double by) {
    return std::max(w - by, 0.0) + std::min(w + by, 0.0);
}

class Clock {
public:
    // l2 t in one span, and in one step at most: float stays far from overflow.
    static constexpr double SPAN = 32, MOST_STEP = 8;

    Clock(double l1, double l2, double time) : l1(l1), l2(l2), time_(time) { begin_span(); }

    const double l1, l2;

    double time() const { return time_.load(std::memory_order_relaxed); }
    double add(double steps) { return time_.fetch_add(steps, std::memory_order_relaxed) + steps; }

    // The span that time is in becomes that of all payloads acquired from now on; no worker may
    // hold any.
    void begin_span() {
        span_ = span_of(time());
        base_ = base_of(span_);
    }
    bool span_is_over() const { return l2 > 0 && time() >= base_of(span_ + 1); }
    double scale_at(double t) const { return l2 > 0 ? std::exp(-l2 * (t - base_)) : 1; }
    double longest_step() const { return l2 > 0 ? MOST_STEP / l2 : HUGE_VAL; }

    // Brings a frame of W up to date; any number of workers may do it at once.
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

    // The span with base_of(span) <= t < base_of(span + 1), whatever rounding says.
    double span_of(double t) const {
        if (l2 <= 0)
            return 0;
        double span = std::floor(t * l2 / SPAN);
        return t < base_of(span) ? span - 1 : t >= base_of(span + 1) ? span + 1 : span;
    }
    double base_of(double span) const { return l2 > 0 ? span * SPAN / l2 : 0; }

    // Never in a later span than base's, so that the stamp tells the payload's base.
    double stamp_of_now() const {
        return l2 > 0 ? std::min(time(), std::nextafter(base_of(span_ + 1), 0.0)) : time();
    }

    bool fresh(double stamp, double now) const {
        if (l1 > 0)
            return stamp >= now;
        return l2 <= 0 || span_of(stamp) == span_;
    }

    // What l1 takes off |u| from time `from` to time t, both in the span of base `from`.
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

// A worker's view of the clock. It adds what it did every few rows: shared at each, time would be
// all that workers fight for.
class OwnClock {
public:
    explicit OwnClock(Clock &clock) : clock_(clock) { merge(); }
    ~OwnClock() { merge(); }

    double scale() const { return scale_; }

    // A step of length eta by a batch of rows; returns by what to multiply its gradient before it
    // is taken off u.
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
