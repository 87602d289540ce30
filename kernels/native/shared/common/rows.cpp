#include "rows.hpp"

#include <algorithm>
#include <atomic>

namespace tusk {

CommonRows::CommonRows(const tk_pass *pass, int64_t most_rows) : begin_{0} {
    std::vector<Known> known;
    for (int64_t g = 0; g < pass->n_groups; g++) {
        add_group(pass, g, most_rows, known);
        begin_.push_back((int64_t)stretch_of_.size());
    }
    for (int64_t s : stretch_of_)
        stretches_[s].uses++;
    int64_t before = 0;
    for (Stretch &s : stretches_) {
        s.first_use = before;
        before += s.uses;
    }
    group_of_use_.resize(before);
    use_of_.resize(before);
    std::vector<int64_t> next(stretches_.size(), 0);
    for (int64_t g = 0; g < pass->n_groups; g++)
        for (int64_t i = begin_[g]; i < begin_[g + 1]; i++) {
            int64_t s = stretch_of_[i];
            use_of_[i] = stretches_[s].first_use + next[s]++;
            group_of_use_[use_of_[i]] = g;
        }
}

void CommonRows::add_group(const tk_pass *pass, int64_t g, int64_t most_rows,
                           std::vector<Known> &known) {
    const tusk_group &group = pass->groups[g];
    auto find = [&](const tusk_segment *s, int64_t rows) {
        return std::find_if(known.begin(), known.end(), [&](const Known &one) {
            return one.segment == s && one.rows == rows;
        });
    };
    bool shares = false;
    for (const tusk_segment *s : SegmentsOf(group))
        shares = shares || find(s, s->n_rows) != known.end();
    if (!shares)
        known.clear();
    int64_t left = group.n_rows;
    for (const tusk_segment *s : SegmentsOf(group)) {
        const int64_t rows = std::min<int64_t>(left, s->n_rows);
        left -= rows;
        if (!rows)
            continue;
        auto same = find(s, rows);
        if (same == known.end()) {
            Known one{s, rows, (int64_t)stretches_.size(), 0};
            for (int64_t at = 0; at < rows; at += most_rows, one.count++)
                stretches_.push_back(
                    {{g, s, (uint32_t)at, std::min(most_rows, rows - at), tusk_shape_of(&group)},
                     0,
                     0});
            known.push_back(one);
            same = known.end() - 1;
        }
        for (int64_t k = 0; k < same->count; k++)
            stretch_of_.push_back(same->first + k);
    }
}

int CommonRows::sum(const tk_pass *pass, int64_t width, double *out, Ref<Body> body) const {
    Counted counted((int64_t)use_of_.size() * width * (int64_t)sizeof(double));
    std::vector<double> partial(use_of_.size() * width, 0.0);
    std::atomic<bool> stop{false};
    parallel_for((int64_t)stretches_.size(), pass->threads, [&](int64_t i) {
        const Stretch &one = stretches_[i];
        if (stop.load(std::memory_order_relaxed) || cancelled(pass->cancel_mark)) {
            stop.store(true, std::memory_order_relaxed);
            return;
        }
        const auto first = group_of_use_.begin() + one.first_use;
        body(one.rows, {first, first + one.uses}, partial.data() + one.first_use * width);
    });
    if (cancelled(pass->cancel_mark))
        return TK_CANCELLED;
    std::fill(out, out + pass->n_groups * width, 0.0);
    for (int64_t g = 0; g < pass->n_groups; g++)
        for (int64_t i = begin_[g]; i < begin_[g + 1]; i++) {
            const double *from = partial.data() + use_of_[i] * width;
            for (int64_t k = 0; k < width; k++)
                out[g * width + k] += from[k];
        }
    return TK_OK;
}

} // namespace tusk
