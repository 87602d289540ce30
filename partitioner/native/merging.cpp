#include "merging.hpp"
#include "threads.hpp"

#include <algorithm>

namespace tusk {

Merging::Merging(const int64_t *starts, const int32_t *features, int64_t n_rows,
                 int32_t n_features, double seek, double unit)
    : sample_(starts, features, n_rows, n_features), n_(n_features), seek_(seek), unit_(unit),
      rows_(n_features), size_(n_features, 1), alive_(n_features), offsets_(n_features),
      triangle_(1 + int64_t{n_features} * (n_features - 1) / 2), best_(n_features) {
    int64_t begin = 0;
    for (int32_t i = 0; i < n_; ++i) {
        rows_[i] = static_cast<int32_t>(sample_.count(i));
        alive_[i] = i;
        offsets_[i] = begin - i;
        begin += n_ - (i + 1);
    }
}

void Merging::affinities(int32_t begin, int32_t end, int32_t threads) {
    parallel(begin, end, threads, [this](int32_t i) {
        sample_.affinities(i, row_of(i) + i + 1);
        search(i);
    });
    for (int32_t i = begin; i < end; ++i) {
        push(i);
    }
}

double Merging::saved(int32_t i, int32_t j, int32_t together) const {
    const double size_i = size_[i], size_j = size_[j];
    return together * (seek_ + (size_i + size_j) * unit_) - rows_[i] * (size_j * unit_) -
           rows_[j] * (size_i * unit_);
}

// Finds the best partner of i, in two passes that the compiler can vectorize.
void Merging::search(int32_t i) {
    const int32_t *together = row_of(i);
    double most = 0;
    for (int32_t j = i + 1; j < n_; ++j) {
        const double one = saved(i, j, together[j]);
        most = one > most ? one : most;
    }
    Best &best = best_[i];
    best.saved = most;
    best.bound = false;
    if (most > 0) {
        best.partner = i + 1;
        while (saved(i, best.partner, together[best.partner]) != most) {
            ++best.partner;
        }
    }
}

void Merging::push(int32_t i) {
    Best &best = best_[i];
    ++best.stamp;
    if (best.saved > 0) {
        heap_.push({best.saved, i, best.stamp});
    }
}

int32_t Merging::merge(int32_t limit, tp_step *steps) {
    int32_t n_steps = 0;
    while (n_steps < limit && !heap_.empty()) {
        const Entry top = heap_.top();
        const int32_t i = top.partition;
        heap_.pop();
        if (top.stamp != best_[i].stamp) {
            continue;
        }
        if (best_[i].bound) {
            search(i);
            push(i);
            continue;
        }
        steps[n_steps] = join(i, best_[i].partner);
        steps[n_steps++].saved = top.saved;
    }
    return n_steps;
}

// Merges second into first < second.
tp_step Merging::join(int32_t first, int32_t second) {
    const Added more = added(first, second);
    const int32_t both = affinity(first, second);
    Word *united = sample_.rows(first);
    const Word *other = sample_.rows(second);
    for (int64_t k = 0; k < sample_.words(); ++k) {
        united[k] |= other[k];
    }
    rows_[first] += rows_[second] - both;
    size_[first] += size_[second];
    rows_[second] = size_[second] = 0;
    ++best_[second].stamp;
    row_of(first)[second] = 0;
    alive_.erase(std::lower_bound(alive_.begin(), alive_.end(), second));
    for (const int32_t j : alive_) {
        if (j != first) {
            const int32_t together = affinity(more.to, j) + shared(more, j);
            forget(j, first, second);
            meet(first, j, together);
        }
    }
    search(first);
    push(first);
    return {first, second, both, rows_[first], 0};
}

// Counts the added rows that access partition j.
int32_t Merging::shared(const Added &more, int32_t j) const {
    const int64_t n = more.words.size();
    const Word *words = more.words.data(), *rows = sample_.rows(j);
    return static_cast<int32_t>(more.index.empty()
                                    ? overlap_kernels().dense(words, rows, n)
                                    : overlap_kernels().sparse(words, more.index.data(), n, rows));
}

// Removes second from the candidates of j, and first in its old form.
void Merging::forget(int32_t j, int32_t first, int32_t second) {
    if (j < second) {
        row_of(j)[second] = 0;
        Best &best = best_[j];
        best.bound |= best.partner == second || (best.partner == first && j < first);
    }
}

// Makes the merged partition a candidate of j, or j a candidate of it.
void Merging::meet(int32_t merged, int32_t j, int32_t together) {
    if (merged < j) {
        row_of(merged)[j] = together;
        return;
    }
    row_of(j)[merged] = together;
    const double one = saved(j, merged, together);
    Best &best = best_[j];
    if (one > best.saved) {
        best.saved = one;
        best.partner = merged;
        best.bound = false;
        push(j);
    } else if (one == best.saved && !best.bound) {
        best.partner = std::min(best.partner, merged);
    }
}

// The smaller of what second adds to first and what first adds to second.
Merging::Added Merging::added(int32_t first, int32_t second) const {
    Added one = difference(second, first), other = difference(first, second);
    Added &less = one.words.size() <= other.words.size() ? one : other;
    if (2 * static_cast<int64_t>(less.words.size()) < sample_.words()) {
        return less;
    }
    Added whole{less.to, std::vector<Word>(sample_.words()), {}}; // no index: consecutive words
    for (size_t k = 0; k < less.words.size(); ++k) {
        whole.words[less.index[k]] = less.words[k];
    }
    return whole;
}

// The rows that access `from` but not `to`.
Merging::Added Merging::difference(int32_t from, int32_t to) const {
    Added found{to, {}, {}};
    const Word *own = sample_.rows(from), *other = sample_.rows(to);
    for (int64_t k = 0; k < sample_.words(); ++k) {
        if (const Word left = own[k] & ~other[k]) {
            found.words.push_back(left);
            found.index.push_back(static_cast<int32_t>(k));
        }
    }
    return found;
}

} // namespace tusk
